"""One process under the tool: a clean log is worth nothing without the worker's word and the roll call's."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.adapters.process import Completed
from flashcore_ci.collect import sanitizer
from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.sanitizer import Checked, Seen
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing

CLEAN = Path(__file__).parents[2] / "recordings/sanitizer/clean-memcheck.log"
RACES = CLEAN.with_name("race.log")
BIG = make_workload("big")
DONE = Completed(argv=(), returncode=0, timed_out=False, seconds=1.0, stdout=Path("/out"), stderr=Path("/err"))
ZERO = Measured(value=0.0, unit="count")


def outcome(values, missing=None, returncode=0):
    return Outcome(values=values, missing=missing, completed=replace(DONE, returncode=returncode), result=Path("/result"))


@pytest.fixture
def run(monkeypatch):
    """The findings of one process that left this log, and whose worker said this."""

    def checked(said, *, log=CLEAN, check="memcheck"):
        monkeypatch.setattr(sanitizer, "_bulk", lambda *_: False)
        monkeypatch.setattr(sanitizer, "_kernels", lambda *_: ())
        monkeypatch.setattr(sanitizer, "_log", lambda *_: log)
        monkeypatch.setattr(sanitizer, "_launch", lambda *_: {"big": said})
        return sanitizer._run_check(SimpleNamespace(), Path("/cs"), "2026.4.0.0", check, (BIG,))["big"].findings

    return checked


def test_a_clean_log_of_a_worker_that_launched_is_clean(run):
    assert run(outcome({"launches": sanitizer.LAUNCHES})) == ZERO


@pytest.mark.parametrize("values", [{}, {"launches": 0}, {"launches": 1}, {"launches": None}, {"launches": "2"}])
def test_without_the_worker_s_own_count_of_launches_a_clean_log_is_not(run, values):
    assert run(outcome(values)).code is Code.CRASH


@pytest.mark.parametrize("code", [Code.RAISED, Code.OUT_OF_MEMORY, Code.HANG, Code.INVALID_RESULT])
def test_what_the_worker_says_went_wrong_comes_before_a_clean_log(run, code):
    said = outcome({"launches": sanitizer.LAUNCHES}, missing=Missing(code=code, message="m"))
    assert run(said).code is code


def test_a_finding_comes_before_what_the_worker_says_went_wrong(run):
    said = outcome({}, missing=Missing(code=Code.CRASH, message="m"), returncode=86)
    assert run(said, log=RACES, check="racecheck").value > 0


def test_a_worker_is_launched_as_the_tool_needs_it(monkeypatch):
    ordered = {}

    def order(kind, name, workloads, **options):
        ordered.update(options, kind=kind)
        return SimpleNamespace(workloads=workloads)

    machine = SimpleNamespace(order=order, session=SimpleNamespace(seconds=lambda kind: 60.0))
    monkeypatch.setattr(sanitizer.isolation, "once", lambda order: order)
    sanitizer._launch(machine, "memcheck", (BIG,), lambda command: command)
    assert ordered["options"] == {"launches": 2}
    assert ordered["variables"] == {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # the caching allocator hides small overruns
    assert ordered["permitted"] == {0, 86}


def observed(seen, checks):
    session = SimpleNamespace(
        context=SimpleNamespace(root=Path("/checkout"), relative=str),
        entries=lambda workload: ("k",),
        observation=lambda kind, workload, **learned: SimpleNamespace(**learned),
    )
    return sanitizer._observe(SimpleNamespace(session=session), BIG, checks, seen)


SAW = Seen(checked=("k", "k"), others=())


def test_a_clean_check_of_launches_that_nobody_listed_is_not_clean():
    checks = dict.fromkeys(SANITIZER_TOOLS, Checked(findings=ZERO))
    assert dict(observed(SAW, checks).readings)["memcheck/findings"] == ZERO
    for seen in (Seen(checked=(), others=("k",)), Seen(checked=("k",), others=()), Missing(code=Code.HANG, message="m")):
        readings = dict(observed(seen, checks).readings)
        assert all(
            isinstance(readings[f"{tool}/{what}"], Missing) for tool in SANITIZER_TOOLS for what in ("findings", "launches")
        )


def test_a_finding_stands_whatever_the_list_says_and_keeps_where_it_is():
    where = Finding(tool="memcheck", message="m", kernel="k", file="/checkout/k.cu", line=7, thread="(1,0,0)", block="(2,0,0)")
    three = Checked(findings=Measured(value=3.0, unit="count"), found=(where,))
    seen = observed(Missing(code=Code.NO_LAUNCH_CHECKED, message="m"), {"memcheck": three})
    assert dict(seen.readings)["memcheck/findings"] == three.findings
    assert seen.findings == (replace(where, file="k.cu"),)
