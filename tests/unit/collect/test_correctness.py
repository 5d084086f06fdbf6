from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.collect import correctness, isolation
from flashcore_ci.collect.child import Ended
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Histogram, Measured, Missing

SAID = {"diff/max": 0.001, "error/ratio": 0.5, "finite/bad-values": 0.0, "repeat/differing-runs": 0.0}


def test_numbers_get_their_units():
    readings = dict(correctness.readings(SAID))
    assert readings["diff/max"] == Measured(value=0.001, unit="abs")
    assert readings["finite/bad-values"] == Measured(value=0.0, unit="count")


def test_words_for_what_is_no_number_become_a_reason():
    readings = dict(correctness.readings({**SAID, "diff/max": "nan", "error/ratio": "inf"}))
    assert isinstance(readings["diff/max"], Missing)
    assert {readings[name].code for name in ("diff/max", "error/ratio")} == {Code.NOT_FINITE}


def test_a_number_that_is_absent_is_missing_and_not_zero():
    readings = dict(correctness.readings({"diff/max": 0.001}))
    assert readings["repeat/differing-runs"].code is Code.METRIC_ABSENT
    assert len(readings) == 4


@pytest.mark.parametrize("said", ["many", None, []])
def test_what_is_no_number_is_no_reading(said):
    reading = dict(correctness.readings({"diff/max": said}))["diff/max"]
    assert reading.code is Code.INVALID_RESULT


def test_histograms_of_errors():
    said = {"first": -40, "counts": [0, 3], "zeros": 2, "not_finite": 0}
    expected = Histogram(first=-40, counts=(0, 3), zeros=2, not_finite=0, unit="abs")
    assert list(correctness.histograms({"error/ours/out": said})) == [("error/ours/out", expected)]


@pytest.mark.parametrize(
    "said", [None, [], {"a": None}, {"a": {}}, {"a": {"first": 0, "counts": [-1], "zeros": 0, "not_finite": 0}}]
)
def test_a_histogram_that_is_none_is_left_out(said):
    assert list(correctness.histograms(said)) == []


@pytest.fixture
def ran(monkeypatch):
    """The workloads of every process; those whose name begins with "big" find no memory but alone."""
    processes = []

    def run(order, go=None):
        names = [workload.id for workload in order.workloads]
        processes.append(names)
        missing = {"missing": {"code": Code.OUT_OF_MEMORY.value, "message": "m"}}
        outcomes = {name: missing if name.startswith("big") and len(names) > 1 else {"seconds": len(names)} for name in names}
        return Ended(outcomes=outcomes, environment={}, in_flight=None, fault=None, completed=None, result=Path("/r"))

    monkeypatch.setattr(isolation.child, "run", run)
    return processes


def outcomes_of(names):
    workloads = tuple(make_workload(name) for name in names)
    return correctness.side_by_side(workloads, lambda some: SimpleNamespace(workloads=some), healthy=lambda: True)


@pytest.mark.parametrize(("workloads", "processes"), [(1, 1), (127, 1), (128, 2), (192, 3), (1000, 3)])
def test_many_workloads_are_dealt_to_processes_and_each_is_asked_once(ran, workloads, processes):
    names = [f"w{number}" for number in range(workloads)]
    outcomes = outcomes_of(names)
    assert sorted(outcomes) == sorted(names)
    assert len(ran) == processes
    assert sorted(name for some in ran for name in some) == sorted(names)
    assert max(map(len, ran)) - min(map(len, ran)) <= correctness.HAND
    if workloads > 1:
        assert all(
            any({first, second} <= set(some) for some in ran) for first, second in zip(names[::8], names[1::8], strict=False)
        )


def test_what_found_no_memory_beside_the_others_is_asked_again_after_them(ran):
    names = ["big", *(f"w{number}" for number in range(200))]
    outcomes = outcomes_of(names)
    assert ran[-1] == ["big"]
    assert all(outcome.missing is None for outcome in outcomes.values())
    assert [name for name, outcome in outcomes.items() if outcome.values.get("notes")] == ["big"]


def test_what_finds_no_memory_on_its_own_is_asked_once(ran):
    outcomes = outcomes_of(["big", "small"])
    assert len(ran) == 1
    assert outcomes["big"].missing.code is Code.OUT_OF_MEMORY
