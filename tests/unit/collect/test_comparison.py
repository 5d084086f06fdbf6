import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import factories
import pytest
from factories import make_workload

from flashcore_ci.collect import comparison
from flashcore_ci.collect.comparison import InterimLooks, PairedSeries
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Identity, Observation
from flashcore_ci.model.identity import is_anchored
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind

WORKLOADS = tuple(make_workload(name) for name in ("quick", "slow", "equal"))
LOOKS = (2, 3, 5)


def identity(workload, side):
    return Identity(
        machine_code="same" if workload.id == "equal" else side,
        launcher="l",
        binding="b",
        subject="s",
        workload="w",
        collector="c",
    )


MORE: dict[str, int] = {}
"""More values of each outcome."""


def outcome(ms=1.0, missing=None):
    values = {} if missing else {"ms": ms, "megacycles": ms * 1.8, "mhz": 1800.0, "kept": 13, "dropped": 1, "batched": False}
    return WorkloadResult(values=values | MORE, missing=missing, completed=None, result_file=Path("/nothing"))


class Session:
    """One side's session, without a GPU."""

    scratch = Path("/scratch")
    python = Path("/python")

    def __init__(self, side, **compiled):
        self.side, self.compiled = side, compiled

    def progress(self, line):
        pass

    def workloads(self, kind):
        assert kind is Kind.COMPARISON
        return WORKLOADS

    def identity(self, kind, workload):
        return identity(workload, self.side)

    def build(self, subject):
        return factories.make_build(subject, **self.compiled)

    def observation(self, kind, workload, **learned):
        return Observation(kind=kind, target=workload.id, identity=identity(workload, self.side), **learned)


class Scripted:
    """Process runs that return ``script(side, workload, round)``. They record what ran, and what started early."""

    def __init__(self, script):
        self.script = script
        self.ran = []
        self.ahead = []

    def __call__(self, scratch):
        return self

    def start(self, run):
        self.ahead.append(run.name)

    def finish(self, run):
        _, number, side = run.name.split("-")
        self.ran.append((int(number), side, tuple(workload.id for workload in run.workloads), run.options["batched"]))
        return {workload.id: self.script(side, workload.id, int(number)) for workload in run.workloads}

    def close(self):
        pass


@pytest.fixture
def compare(monkeypatch):
    def run(script=lambda *_: outcome(), is_final=lambda *_: False, *, anchor=None, **compiled):
        scripted = Scripted(script)
        monkeypatch.setattr(comparison, "ProcessRuns", scripted)
        looks = InterimLooks(rounds=LOOKS, is_final=is_final)
        found = {
            one.target if not is_anchored(one) else f"{one.target} anchored": one
            for one in comparison.collect(Session("head", **compiled), Session("base"), looks, None, anchor)
        }
        return found, scripted

    return run


def test_a_round_is_one_process_of_each_side_in_either_order(compare):
    found, scripted = compare()
    rounds = [list(group) for _, group in itertools.groupby(scripted.ran, key=lambda ran: ran[0])]
    assert [sorted(side for _, side, *_ in one) for one in rounds] == [["base", "head"]] * LOOKS[-1]
    samples = dict(found["slow"].samples)
    assert {name: len(sample.values) for name, sample in samples.items()} == dict.fromkeys(samples, LOOKS[-1])
    assert found["slow"].base == identity(WORKLOADS[1], "base")
    assert dict(found["slow"].readings)["blocks/dropped"].value == 2 * LOOKS[-1]


def test_each_round_has_a_new_random_order(compare):
    orders = {tuple(side for _, side, *_ in compare()[1].ran) for _ in range(20)}
    assert len(orders) > 1


def test_the_same_code_is_not_timed(compare):
    found, scripted = compare()
    assert all("equal" not in workloads for _, _, workloads, _ in scripted.ran)
    assert found["equal"].samples == ()
    assert dict(found["equal"].readings)["comparison/same-code"].value == 1


@pytest.mark.parametrize("part", ["preprocessed", "host_objects"])
@pytest.mark.parametrize("value", ["other", ""])
def test_equal_identities_with_other_host_code_are_timed(compare, part, value):
    found, _ = compare(**{part: value})
    assert len(dict(found["equal"].samples)["head/clock/sm"].values) == LOOKS[-1]
    assert dict(found["equal"].readings).keys() == {"blocks/kept", "blocks/dropped"}


def test_a_slope_of_graphs_is_named(compare, monkeypatch):
    monkeypatch.setitem(MORE, "graph_launches", 41)
    found, _ = compare()
    assert dict(found["quick"].readings)["graph/launches"].value == 41


def test_a_workload_leaves_at_the_look_that_decides_it(compare):
    looked = []

    def is_final(target, samples, provenance):
        looked.append((target, len(samples["head/time/gpu/cold"].values)))
        return target == "quick"

    found, scripted = compare(is_final=is_final)
    assert looked == [("quick", 2), ("slow", 2), ("slow", 3), ("slow", 5)]
    assert {workloads for number, _, workloads, _ in scripted.ran if number >= LOOKS[0]} == {("slow",)}
    assert len(dict(found["quick"].samples)["base/clock/sm"].values) == LOOKS[0]


def test_the_first_process_decides_how_both_sides_are_launched(compare):
    _, scripted = compare()
    assert scripted.ran[0][3] == {}
    assert all(batched == {"quick": False, "slow": False} for *_, batched in scripted.ran[1:])


def test_a_round_that_lost_a_side_does_not_count(compare):
    def script(side, workload, number):
        lost = (side, workload, number) == ("head", "slow", 1)
        return outcome(missing=Missing(code=Code.THROTTLED, message="hot")) if lost else outcome()

    found, _ = compare(script)
    assert {len(sample.values) for _, sample in found["slow"].samples} == {LOOKS[-1] - 1}
    assert found["slow"].notes == ("round 2: head: throttled: hot",)
    assert found["slow"].missing is None


def test_no_round_at_all_is_missing_with_the_commonest_reason(compare):
    found, _ = compare(lambda *_: outcome(missing=Missing(code=Code.THROTTLED, message="hot")))
    assert found["slow"].missing.code is Code.THROTTLED
    assert found["slow"].samples == ()


@pytest.mark.parametrize(("side", "code"), [("base", Code.NO_BASE), ("head", Code.RAISED)])
def test_a_side_that_fails_ends_the_series(compare, side, code):
    def script(at, workload, number):
        return outcome(missing=Missing(code=Code.RAISED, message="no")) if (at, workload) == (side, "quick") else outcome()

    found, scripted = compare(script)
    assert found["quick"].missing.code is code
    assert max(number for number, _, workloads, _ in scripted.ran if "quick" in workloads) == LOOKS[0] - 1


def test_a_base_that_ran_it_before_keeps_its_rounds(compare):
    def script(at, workload, number):
        lost = (at, workload, number) == ("base", "quick", 2)
        return outcome(missing=Missing(code=Code.CRASH, message="Xid 79")) if lost else outcome()

    found, scripted = compare(script)
    assert found["quick"].missing is None
    assert {len(sample.values) for _, sample in found["quick"].samples} == {2}
    assert found["quick"].notes == ("round 3: base: crash: Xid 79",)
    assert max(number for number, _, workloads, _ in scripted.ran if "quick" in workloads) == LOOKS[1] - 1


def test_if_neither_side_can_run_it_head_has_failed(compare):
    found, _ = compare(lambda *_: outcome(missing=Missing(code=Code.RAISED, message="no")))
    assert found["quick"].missing.code is Code.RAISED


def test_a_stopped_run_keeps_its_rounds(compare, monkeypatch):
    stopped = []
    monkeypatch.setattr(comparison.process, "stopping", lambda: bool(stopped))

    def script(side, workload, number):
        if number == 3:
            stopped.append(True)
        return outcome()

    found, _ = compare(script)
    assert len(dict(found["slow"].samples)["base/clock/sm"].values) == 3


def test_a_series_without_rounds_was_interrupted():
    assert PairedSeries(workload=WORKLOADS[0]).missing().code is Code.INTERRUPTED


def counted(scripted):
    return Counter(side for _, side, *_ in scripted.ran)


def test_the_anchor_is_a_third_process_of_each_round_and_costs_half_more(compare):
    found, scripted = compare(anchor=Session("anchor"))
    assert counted(scripted) == dict.fromkeys(("base", "head", "anchor"), LOOKS[-1])
    assert counted(compare()[1]).total() * 1.5 == counted(scripted).total()
    seen = found["slow anchored"]
    assert seen.base == identity(WORKLOADS[1], "anchor")
    assert {name.split("/")[0] for name, _ in seen.samples} == {"anchor", "head"}
    assert {name.split("/")[0] for name, _ in found["slow"].samples} == {"base", "head"}


def test_equal_code_is_not_timed_with_the_anchor_either(compare):
    found, _ = compare(anchor=Session("anchor"))
    assert "equal anchored" not in found


def test_an_anchor_that_is_the_base_costs_nothing(compare):
    found, scripted = compare(anchor=Session("base"))
    assert counted(scripted)["anchor"] == 0
    assert not [name for name in found if name.endswith("anchored")]


def test_a_head_that_is_the_anchor_has_the_ratio_one(compare):
    found, scripted = compare(anchor=Session("head"))
    assert counted(scripted)["anchor"] == 0
    assert dict(found["slow anchored"].readings)["comparison/same-code"].value == 1.0


def test_an_anchor_that_fails_changes_no_verdict(compare):
    def script(side, workload, number):
        return outcome(missing=Missing(code=Code.CRASH, message="Xid 79")) if side == "anchor" else outcome()

    found, scripted = compare(script, anchor=Session("anchor"))
    plain, _ = compare()
    assert found["slow"] == replace(plain["slow"], artifacts=found["slow"].artifacts)
    assert found["slow anchored"].missing.message.startswith("the anchor cannot run it")
    assert counted(scripted)["anchor"] == LOOKS[0]
