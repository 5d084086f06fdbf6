"""The numbers of a run are those of its tools' files."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tool_files as run
from factories import make_description
from tool_files import LIST, LOGS, REPORT, RUN, with_file, with_number, with_observation

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome

FOUND = run.control("memcheck", "scale_f32")
FINDING = Finding(
    tool="memcheck", message="Invalid __global__ write of size 4 bytes", kernel="scale_f32", thread="(0,0,0)", block="(0,0,0)"
)


def reason(source, gate="memcheck", target="big"):
    return next(verdict.reason for verdict in run.report_on(source).verdicts if (verdict.gate, verdict.target) == (gate, target))


def found_in_big(source):
    """The run in which memcheck found one error in ``big``, honestly recorded."""
    source = with_file(source, f"{LOGS}/memcheck-big.log", FOUND)
    source = with_number(source, Kind.SANITIZER, "big", "memcheck/findings", 1.0)
    return with_observation(source, Kind.SANITIZER, "big", lambda old: replace(old, findings=(FINDING,)))


def test_a_run_that_says_what_its_files_say_is_green():
    assert run.is_green(RUN)


def test_an_honest_finding_is_a_finding():
    assert reason(found_in_big(RUN)).code is Code.OVER_LIMIT
    assert reason(found_in_big(RUN), target="small").code is Code.WITHIN_LIMIT


def test_a_log_that_ends_after_a_finding_counts_a_part():
    """The recorded launches then count for nothing, so that no limit above zero is met."""
    cut = with_file(found_in_big(RUN), f"{LOGS}/memcheck-big.log", FOUND[: FOUND.index(run.BLANK)] + run.BLANK)
    assert reason(cut).message == "at least 1 is not exactly 0"
    checked = run.rederive.rederived(cut, run.PLAN, run.Reports(cut.files))
    big = next(seen for seen in checked.evidence.observations if (seen.kind, seen.target) == (Kind.SANITIZER, "big"))
    assert big.reading("memcheck/launches").code is Code.TOOL_FAILED


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (with_number(found_in_big(RUN), Kind.SANITIZER, "big", "memcheck/findings", 0.0), r"memcheck-big\.log: memcheck/findings of big is 1\.0 count, and evidence\.json says 0\.0 count"),
        (with_number(RUN, Kind.SANITIZER, "small", "initcheck/launches", 4.0), r"roll-call\.log: initcheck/launches of small is 2\.0 count, and evidence\.json says 4\.0"),
        (with_number(RUN, Kind.PROFILE, "big", "sol/dram", 99.0), r"report-0\.ncu-rep: sol/dram of big is 91\.5 %, and evidence\.json says 99\.0 %"),
        (with_number(RUN, Kind.PROFILE, "big", "launches/call", 2.0), "launches/call of big is 1"),
        (with_observation(found_in_big(RUN), Kind.SANITIZER, "big", lambda old: replace(old, findings=())), "1 findings, and evidence.json 0"),
        (with_observation(found_in_big(RUN), Kind.SANITIZER, "big", lambda old: replace(old, findings=(replace(FINDING, message="known"),))), "evidence.json says 1 x 'known'"),
        (with_observation(RUN, Kind.PROFILE, "big", lambda old: replace(old, artifacts=())), "is the last report of big, and evidence.json names none"),
    ],
)  # fmt: skip
def test_another_number_is_refused_with_file_metric_and_both_values(source, words):
    with pytest.raises(EvidenceError, match=words) as caught:
        run.report_on(source)
    assert "\n" not in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        (f"{LOGS}/memcheck.log", None, Code.NO_TOOL_FILE),
        (f"{LOGS}/memcheck.log", "", Code.TOOL_FAILED),
        (f"{LOGS}/memcheck.log", run.HEADER, Code.TOOL_FAILED),
        (f"{LOGS}/memcheck.log", run.clean("memcheck")[:-1], Code.UNKNOWN_OUTPUT),
        (f"{LOGS}/memcheck.log", run.clean("racecheck"), Code.TOOL_FAILED),
        (f"{LOGS}/memcheck.log", run.clean("memcheck") * 2, Code.UNKNOWN_OUTPUT),
        (f"{LOGS}/control-memcheck.log", None, Code.NO_TOOL_FILE),
        (f"{LOGS}/control-memcheck.log", run.clean("memcheck"), Code.CONTROL_FAILED),
        (LIST, None, Code.NO_TOOL_FILE),
        (LIST, run.listing(*run.marked(0)), Code.WITHIN_LIMIT),
        (LIST, run.listing(*run.marked(1)), Code.NO_LAUNCH_CHECKED),
        (LIST, run.listing(*run.marked(0, "scale_f16"), *run.marked(1)), Code.KERNEL_NOT_SEEN),
        (LIST, run.listing(*run.marked(0, launches=1), *run.marked(1)), Code.NO_LAUNCH_CHECKED),
        (LIST, run.listing(*run.marked(0), *run.marked(0), *run.marked(1)), Code.NO_LAUNCH_CHECKED),
        (LIST, run.listing(*run.marked(0)).replace("ERROR SUMMARY: 4 errors", "ERROR SUMMARY: 5 errors"), Code.NO_LAUNCH_CHECKED),
    ],
)
def test_a_file_that_is_absent_or_says_less_is_missing_evidence(name, content, code):
    assert reason(with_file(RUN, name, content)).code is code


def test_a_listed_launch_of_another_subject_is_refused(monkeypatch):
    decode = make_description("decode", workloads=(), entries=("decode_f32",))
    monkeypatch.setattr(run, "PLAN", replace(run.PLAN, descriptions=(*run.PLAN.descriptions, decode)))
    assert reason(RUN).code is Code.WITHIN_LIMIT
    launched = run.listing(run.marked(0)[0], ("decode_f32", 1, True), *run.marked(0)[1:], *run.marked(1))
    found = reason(with_file(RUN, LIST, launched))
    assert found.code is Code.FOREIGN_KERNEL
    assert "decode_f32 ran, a kernel of subject decode" in found.message


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, Code.NO_TOOL_FILE),
        (b"", Code.INVALID_REPORT),
        (run.report()[:100], Code.INVALID_REPORT),
        (run.report(workload="other"), Code.KERNEL_NOT_SEEN),
        (run.report(kernel="other"), Code.KERNEL_NOT_SEEN),
    ],
)
def test_a_report_that_is_absent_or_foreign_is_missing_evidence(content, code):
    assert reason(with_file(RUN, REPORT, content), "sol-dram").code is code


def test_of_two_reports_the_last_one_counts():
    source = with_file(RUN, REPORT.replace("report-0", "report-1"), run.report(12.0))
    with pytest.raises(EvidenceError, match="report-1"):
        run.report_on(source)


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_every_check_is_derived(check):
    unknown = run.clean(check).replace(run.HEADER, f"{run.HEADER}========= The cache of barriers is full\n")
    found = reason(with_file(RUN, f"{LOGS}/{check}.log", unknown), check)
    assert found.code is Code.UNKNOWN_OUTPUT
    assert "The cache of barriers is full" in found.message
    assert f"{check}.log" in found.message


@pytest.mark.parametrize(
    ("tools", "code"),
    [({}, Code.NO_TOOLS), ({"compute-sanitizer": ""}, Code.TOOL_TOO_OLD), ({"compute-sanitizer": "2025.3"}, Code.TOOL_TOO_OLD)],
)
def test_without_the_tool_s_version_no_log_counts(tools, code):
    provenance = replace(RUN.evidence.provenance, tools=tuple({"ncu": "2025.3", **tools}.items()))
    source = replace(RUN, evidence=replace(RUN.evidence, provenance=provenance))
    assert reason(source).code is code


def test_a_missing_reading_stays_missing():
    hang = Missing(code=Code.HANG, message="m")
    source = with_observation(
        RUN, Kind.SANITIZER, "big", lambda old: replace(old, readings=tuple((metric, hang) for metric, _ in old.readings))
    )
    assert reason(source) == replace(reason(source), code=Code.HANG, message="m")
    assert run.report_on(source).outcome is Outcome.FAIL


def test_names_from_the_run_stay_in_one_short_line():
    named = with_observation(RUN, Kind.PROFILE, "big", lambda old: replace(old, artifacts=("\x1b[2J\nPASS" * 1000,)))
    with pytest.raises(EvidenceError) as caught:
        run.report_on(named)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_the_second_half_of_a_check_has_a_log_of_its_own():
    second = f"{LOGS}/racecheck+2.log"
    named = with_observation(
        RUN, Kind.SANITIZER, "small",
        lambda old: replace(old, artifacts=tuple(second if name == f"{LOGS}/racecheck.log" else name for name in old.artifacts)),
    )  # fmt: skip
    assert reason(named, gate="racecheck", target="small").code is Code.NO_TOOL_FILE
    whole = with_file(named, second, RUN.files[f"{LOGS}/racecheck.log"])
    assert run.is_green(whole)
