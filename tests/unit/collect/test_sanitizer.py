from pathlib import Path

import pytest
from factories import make_workload

from flashcore_ci.adapters.sanitizer_log import Launch, parse_launches
from flashcore_ci.collect import sanitizer
from flashcore_ci.collect.sanitizer import ObservedLaunches
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured, Missing

LAUNCH_LIST = (Path(__file__).parents[2] / "recordings/sanitizer/roll-call.log").read_text(encoding="utf-8")


def begin(index):
    return Launch(kernel="flashcore_ci_begin", width=index + 1, checked=False)


def end(index):
    return Launch(kernel="flashcore_ci_end", width=index + 1, checked=False)


def kernel(name="k", *, checked=True):
    return Launch(kernel=name, width=1, checked=checked)


def test_a_recorded_launch_list_gives_each_workload_its_launches():
    launches = parse_launches(LAUNCH_LIST)
    attention = sanitizer.between_marks(launches, 0)
    assert attention.checked == ("flashcore_attention_fwd_d64_fp16_causal",) * 2
    assert sanitizer.between_marks(launches, 1) == ObservedLaunches(checked=("flashcore_stream_axpy_f32",) * 2, others=())
    assert isinstance(sanitizer.between_marks(launches, 2), Missing)


def test_launches_before_and_after_the_marks_are_not_the_workloads():
    launches = (kernel("fill"), begin(0), kernel(), kernel("copy", checked=False), end(0), kernel("late"))
    assert sanitizer.between_marks(launches, 0) == ObservedLaunches(checked=("k",), others=("copy",))


@pytest.mark.parametrize(
    "launches", [(), (begin(0), kernel()), (kernel(), end(0)), (begin(1), kernel(), end(1)), (end(0), begin(0))]
)
def test_without_both_marks_nothing_is_known(launches):
    found = sanitizer.between_marks(launches, 0)
    assert isinstance(found, Missing)
    assert found.code is Code.NO_LAUNCH_CHECKED


def test_launches_are_counted():
    assert sanitizer.count_checked(ObservedLaunches(checked=("k", "k"), others=("copy",)), ("k",), {}) == Measured(
        value=2.0, unit="count"
    )


@pytest.mark.parametrize(
    ("launches", "entries", "code"),
    [
        (ObservedLaunches(checked=(), others=()), ("k",), Code.NO_LAUNCH_CHECKED),
        (ObservedLaunches(checked=(), others=()), (), Code.NO_LAUNCH_CHECKED),
        (ObservedLaunches(checked=(), others=("other",)), ("k",), Code.KERNEL_NOT_SEEN),
        (ObservedLaunches(checked=("k",), others=()), ("k", "second"), Code.KERNEL_NOT_SEEN),
        (ObservedLaunches(checked=("k", "k", "second"), others=()), ("k", "second"), Code.NO_LAUNCH_CHECKED),
        (Missing(code=Code.HANG, message="m"), ("k",), Code.HANG),
    ],
)
def test_without_a_launch_of_a_planned_kernel_the_count_is_missing(launches, entries, code):
    found = sanitizer.count_checked(launches, entries, {})
    assert isinstance(found, Missing)
    assert found.code is code


class Session:
    """A session whose known-good kernel is scripted."""

    shards = 1

    def __init__(self, *, healthy=True):
        self._healthy = healthy
        self.may_start = bool

    def is_healthy(self):
        return self._healthy


WORKLOADS = (make_workload("a"), make_workload("b"))
ZERO, THREE = (Measured(value=float(count), unit="count") for count in (0, 3))


def check(monkeypatch, together, alone, *, healthy=True, version="2026.4.0.0"):
    """Return the findings by workload, and the number of processes."""
    ran = []

    def run(session, tool, version, name, workloads):
        ran.append(workloads)
        by_id = together if len(workloads) > 1 else alone
        return {workload.id: sanitizer.CheckResult(findings=by_id[workload.id]) for workload in workloads}

    monkeypatch.setattr(sanitizer, "_run_check", run)
    checked = sanitizer._check(Session(healthy=healthy), Path("/cs"), version, "memcheck", WORKLOADS)
    return {name: one.findings for name, one in checked.items()}, len(ran)


def test_a_clean_process_is_clean_for_all(monkeypatch):
    clean = {"a": ZERO, "b": ZERO}
    assert check(monkeypatch, clean, {}) == (clean, 1)


def test_a_finding_gets_its_owner(monkeypatch):
    owned = {"a": ZERO, "b": THREE}
    assert check(monkeypatch, {"a": THREE, "b": THREE}, owned) == (owned, 3)


def test_a_crash_under_the_tool_runs_each_alone_only_on_a_healthy_machine(monkeypatch):
    crash = Missing(code=Code.CRASH, message="m")
    owned = {"a": ZERO, "b": crash}
    assert check(monkeypatch, {"a": crash, "b": crash}, owned) == (owned, 3)
    unhealthy, processes = check(monkeypatch, {"a": crash, "b": crash}, owned, healthy=False)
    assert {missing.code for missing in unhealthy.values()} == {Code.DEVICE_UNHEALTHY}
    assert processes == 1


def test_a_stopped_run_runs_nothing_alone(monkeypatch):
    stopped = dict.fromkeys("ab", Missing(code=Code.INTERRUPTED, message="m"))
    assert check(monkeypatch, stopped, {}) == (stopped, 1)


@pytest.mark.parametrize("version", ["2025.3.1.0", ""])
def test_an_old_tool_is_not_even_run(monkeypatch, version):
    found, processes = check(monkeypatch, {}, {}, version=version)
    assert {missing.code for missing in found.values()} == {Code.TOOL_TOO_OLD}
    assert processes == 0


def test_initcheck_takes_kernels_that_load_bulk_copies_by_themselves(monkeypatch):
    ran = []
    monkeypatch.setattr(
        sanitizer, "_loads_bulk_copies", lambda session, name, workload: name == "initcheck" and workload.id == "b"
    )
    monkeypatch.setattr(sanitizer, "_run_check", lambda session, tool, version, name, workloads: ran.append(workloads) or {})
    sanitizer._check(Session(), Path("/cs"), "2026.4.0.0", "initcheck", WORKLOADS)
    assert {tuple(one.id for one in group) for group in ran} == {("a",), ("b",)}
    sanitizer._check(Session(), Path("/cs"), "2026.4.0.0", "memcheck", WORKLOADS)
    assert ran[2:] == [WORKLOADS]


@pytest.mark.parametrize(
    ("name", "count", "shards", "parts"),
    [
        ("racecheck", 25, 1, [7, 6, 6, 6]),
        ("racecheck", 100, 1, [25] * 4),
        ("racecheck", 23, 1, [23]),
        ("racecheck", 13, 2, [7, 6]),
        ("racecheck", 5, 8, [5]),
        ("memcheck", 25, 1, [25]),
    ],
)
def test_many_workloads_have_four_processes_of_the_slowest_check(monkeypatch, name, count, shards, parts):
    ran = {}
    workloads = tuple(make_workload(f"w{number}") for number in range(count))
    monkeypatch.setattr(sanitizer, "_loads_bulk_copies", lambda *_: False)
    monkeypatch.setattr(
        sanitizer, "_run_check", lambda session, tool, version, name, workloads: ran.update({name: workloads}) or {}
    )
    session = Session()
    session.shards = shards
    sanitizer._check(session, Path("/cs"), "2026.4.0.0", name, workloads)
    assert [len(ran[each]) for each in (name + part for part in sanitizer.PARTS) if each in ran] == parts
    assert {one.id for group in ran.values() for one in group} == {one.id for one in workloads}
    assert set(ran.values()) == {workloads[number :: len(parts)] for number in range(len(parts))}
