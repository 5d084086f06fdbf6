"""One process under the tool: a clean log needs the worker's count of launches and the launch list."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.adapters.process import Completed
from flashcore_ci.adapters.sanitizer import VARIABLES
from flashcore_ci.collect import sanitizer
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.sanitizer import CheckResult, ObservedLaunches
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing

CLEAN = Path(__file__).parents[2] / "recordings/sanitizer/clean-memcheck.log"
RACES = CLEAN.with_name("race.log")
BIG = make_workload("big")
SPEC = JobSpec(
    kind="launch",
    name="memcheck",
    python=Path("/py"),
    root=Path("/r"),
    scratch=Path("/s"),
    seconds=1.0,
    subjects=(),
    workloads=(),
)
DONE = Completed(argv=(), returncode=0, timed_out=False, seconds=1.0, stdout=Path("/out"), stderr=Path("/err"))
ZERO = Measured(value=0.0, unit="count")


def outcome(values, missing=None, returncode=0):
    return WorkloadResult(
        values=values, missing=missing, completed=replace(DONE, returncode=returncode), result_file=Path("/result")
    )


@pytest.fixture
def check_once(monkeypatch):
    """Return what one process with this log and this result of the worker says."""

    def checked(result, *, log=CLEAN, check="memcheck"):
        monkeypatch.setattr(sanitizer, "_loads_bulk_copies", lambda *_: False)
        monkeypatch.setattr(sanitizer, "_kernels", lambda *_: ())
        monkeypatch.setattr(sanitizer, "_log", lambda *_: log)
        monkeypatch.setattr(sanitizer, "_launch", lambda *_: {"big": result})
        return sanitizer._run_check(SimpleNamespace(), Path("/cs"), "2026.4.0.0", check, (BIG,))["big"]

    return checked


@pytest.fixture
def run(check_once):
    """Return the findings alone."""
    return lambda *arguments, **options: check_once(*arguments, **options).findings


ALL = {"launches": sanitizer.LAUNCHES}


@pytest.mark.parametrize(
    ("values", "missing", "has_end", "code"),
    [
        (ALL, None, True, None),
        (ALL, None, False, Code.TOOL_FAILED),
        ({}, Missing(code=Code.HANG, message="m"), False, Code.HANG),
        ({}, Missing(code=Code.CRASH, message="m"), True, Code.CRASH),
        ({"launches": 1}, None, True, Code.CRASH),
    ],
)
def test_findings_of_a_check_that_ended_early_may_be_more(check_once, tmp_path, values, missing, has_end, code):
    """Its launches are then missing, and no limit above zero is met."""
    log, text = tmp_path / "racecheck.log", RACES.read_text(encoding="utf-8")
    log.write_text(text if has_end else text[: text.index("RACECHECK SUMMARY")].rpartition("\n")[0] + "\n", encoding="utf-8")
    seen = check_once(outcome(values, missing=missing, returncode=86), log=log, check="racecheck")
    assert seen.findings.value > 0
    launches = dict(observed(SAW, dict.fromkeys(SANITIZER_TOOLS, seen)).readings)["racecheck/launches"]
    assert getattr(launches, "code", None) is code


def test_a_clean_log_of_a_worker_that_launched_is_clean(run):
    assert run(outcome({"launches": sanitizer.LAUNCHES})) == ZERO


@pytest.mark.parametrize("values", [{}, {"launches": 0}, {"launches": 1}, {"launches": None}, {"launches": "2"}])
def test_without_the_worker_s_own_count_of_launches_a_clean_log_is_not(run, values):
    assert run(outcome(values)).code is Code.CRASH


@pytest.mark.parametrize("code", [Code.RAISED, Code.OUT_OF_MEMORY, Code.HANG, Code.INVALID_RESULT])
def test_a_failure_of_the_worker_comes_before_a_clean_log(run, code):
    failed = outcome({"launches": sanitizer.LAUNCHES}, missing=Missing(code=code, message="m"))
    assert run(failed).code is code


def test_a_finding_comes_before_a_failure_of_the_worker(run):
    failed = outcome({}, missing=Missing(code=Code.CRASH, message="m"), returncode=86)
    assert run(failed, log=RACES, check="racecheck").value > 0


@pytest.mark.parametrize("length", [0, 10, 28, 60])
def test_a_process_of_several_workloads_ends_at_its_first_finding(monkeypatch, tmp_path, length):
    log, given = tmp_path / "racecheck.log", []
    monkeypatch.setattr(sanitizer, "_loads_bulk_copies", lambda *_: False)
    monkeypatch.setattr(sanitizer, "_kernels", lambda *_: ())
    monkeypatch.setattr(sanitizer, "_log", lambda *_: log)
    done = outcome({"launches": sanitizer.LAUNCHES})
    monkeypatch.setattr(sanitizer, "_launch", lambda *one: given.append(one[-1]) or dict.fromkeys(("big", "other"), done))
    for workloads in ((BIG, make_workload("other")), (BIG,)):
        sanitizer._run_check(SimpleNamespace(), Path("/cs"), "2026.4.0.0", "racecheck", workloads)
    together, alone = given
    assert not together()  # without a log
    log.write_text(CLEAN.with_name("clean-racecheck.log").read_text(encoding="utf-8")[:length], encoding="utf-8")
    assert not together()  # a header, or a line that is still being written
    log.write_text(RACES.read_text(encoding="utf-8"), encoding="utf-8")
    assert together()
    assert not alone()  # its number of findings is the reading


def test_a_clean_log_never_ends_its_process(tmp_path):
    for check in SANITIZER_TOOLS:
        text, log = CLEAN.with_name(f"clean-{check}.log").read_text(encoding="utf-8"), tmp_path / "log"
        for length in range(len(text) + 1):
            log.write_text(text[:length], encoding="utf-8")
            assert not sanitizer._has_entry(log, check)


def test_a_worker_is_launched_as_the_tool_needs_it(monkeypatch):
    given = {}

    def job(kind, name, workloads, **options):
        given.update(options, kind=kind)
        return SPEC

    session = SimpleNamespace(job=job, seconds=lambda kind: 60.0)
    monkeypatch.setattr(sanitizer.isolation, "run_once", lambda spec: spec)
    sanitizer._launch(session, "memcheck", (BIG,), lambda command: command)
    assert given["options"] == {"launches": 2}
    assert given["variables"]["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"  # the caching allocator hides small overruns
    assert given["variables"].items() >= VARIABLES.items()  # the machine cannot make the tool see less
    assert given["permitted"] == {0, 86}


def observed(launches, checks):
    session = SimpleNamespace(
        root=Path("/checkout"),
        relative=str,
        entries=lambda workload: ("k",),
        foreign=lambda workload: {"other": "decode"},
        observation=lambda kind, workload, **learned: SimpleNamespace(**learned),
    )
    return sanitizer._observe(session, BIG, checks, launches)


SAW = ObservedLaunches(checked=("k", "k"), others=())


def test_a_clean_check_of_unlisted_launches_is_not_clean():
    checks = dict.fromkeys(SANITIZER_TOOLS, CheckResult(findings=ZERO))
    assert dict(observed(SAW, checks).readings)["memcheck/findings"] == ZERO
    for seen in (
        ObservedLaunches(checked=(), others=("k",)),
        ObservedLaunches(checked=("k",), others=()),
        Missing(code=Code.HANG, message="m"),
    ):
        readings = dict(observed(seen, checks).readings)
        assert all(
            isinstance(readings[f"{tool}/{what}"], Missing) for tool in SANITIZER_TOOLS for what in ("findings", "launches")
        )


@pytest.mark.parametrize(
    "launches",
    [ObservedLaunches(checked=("k", "k", "other"), others=()), ObservedLaunches(checked=("k", "k"), others=("other",))],
)
def test_a_clean_check_that_saw_a_kernel_of_another_subject_fails(launches):
    seen = dict(observed(launches, {"memcheck": CheckResult(findings=sanitizer.CLEAN)}).readings)
    expected = Missing(code=Code.FOREIGN_KERNEL, message="other ran, a kernel of subject decode")
    assert seen == {"memcheck/findings": expected, "memcheck/launches": expected}


def test_a_finding_counts_whatever_the_list_says_and_keeps_its_place():
    where = Finding(tool="memcheck", message="m", kernel="k", file="/checkout/k.cu", line=7, thread="(1,0,0)", block="(2,0,0)")
    three = CheckResult(findings=Measured(value=3.0, unit="count"), found=(where,))
    seen = observed(Missing(code=Code.NO_LAUNCH_CHECKED, message="m"), {"memcheck": three})
    assert dict(seen.readings)["memcheck/findings"] == three.findings
    assert seen.findings == (replace(where, file="k.cu"),)
