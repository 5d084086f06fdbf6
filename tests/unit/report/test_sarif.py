from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from factories import make_build, make_description, make_entry_build
from golden.dossiers import DOSSIER
from golden.reports import ERROR, GREEN, HOSTILE, RED, REPORTS, SHADES, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from flashcore_ci.model.codes import Code
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.report import sarif

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/sarif.json").read_text(encoding="utf-8"))


def run_of(report: Report, dossier: Dossier = DOSSIER) -> dict[str, Any]:
    log = json.loads(sarif.render(report, dossier))
    jsonschema.validate(log, SCHEMA)
    return log["runs"][0]


def place(result: dict[str, Any]) -> tuple[str, int]:
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical["region"]["startLine"]


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_valid_with_a_dossier_and_without(name: str) -> None:
    run_of(REPORTS[name])
    run_of(REPORTS[name], Dossier())


def test_the_schema_can_fail() -> None:
    log = json.loads(sarif.render(RED, DOSSIER))
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SCHEMA)


def test_each_check_that_is_not_a_pass_is_a_result_and_what_blocks_is_an_error() -> None:
    results = run_of(RED)["results"]
    assert [(r["ruleId"], r["level"], r["properties"]["outcome"]) for r in results] == [
        ("max-diff", "error", "FAIL"),
        ("racecheck", "error", "FAIL"),
        ("finite", "error", "FAIL"),
        ("stability", "error", "INCONCLUSIVE"),
    ]
    assert all("kind" not in result for result in results)  # viewers hide every kind but `fail`


def test_a_finding_is_at_its_line() -> None:
    found = next(result for result in run_of(RED)["results"] if result["ruleId"] == "racecheck")
    assert place(found) == ("kernel/include/flashcore/attention/body.cuh", 112)
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uriBaseId"] == "SRCROOT"
    assert found["locations"][0]["logicalLocations"] == [{"name": "flashcore_attention_fp16_d64", "kind": "function"}]


def test_the_same_fault_is_recognised_in_another_run_whatever_its_numbers() -> None:
    def prints(value: float, **seen: Any) -> list[dict[str, str]]:
        finding = Finding(tool="memcheck", message="Invalid read", file="a.cu", line=3, **seen)
        red = verdict("racecheck", "w", value, Outcome.FAIL, Code.OVER_LIMIT, f"{value} findings", findings=(finding,))
        reds = (red, replace(red, findings=()))
        return [result["partialFingerprints"] for result in run_of(replace(RED, verdicts=reds))["results"]]

    assert prints(1.0) == prints(2.0, thread="(1,0,0)", block="(2,0,0)", count=9)
    assert prints(1.0)[0] != prints(1.0)[1]


def test_what_has_no_line_is_at_the_subject_or_at_the_entry_functions_source() -> None:
    build = make_build(entries=(make_entry_build("scale_f32", source="kernel/scale.cu"),))
    spilled = verdict("registers", "scale_f32", 120.0, Outcome.FAIL, Code.OVER_LIMIT, "over", subject="scale")
    wrong = verdict("max-diff", "big", 1.0, Outcome.FAIL, Code.OVER_LIMIT, "wrong", subject="scale")
    report = replace(RED, verdicts=(spilled, wrong), builds=(build,))
    dossier = Dossier(descriptions=(make_description("scale"),))
    assert [place(r)[0] for r in run_of(report, dossier)["results"]] == ["kernel/scale.cu", "kernel/subjects/scale.py"]


def test_warnings_of_the_compiler_are_results_of_a_rule_of_their_own() -> None:
    build = make_build(entries=(make_entry_build("scale_f32", source="kernel/scale.cu", warnings=("'setmaxnreg' ignored",)),))
    run = run_of(replace(GREEN, builds=(build,)))
    assert [(r["ruleId"], r["level"], place(r)[0]) for r in run["results"]] == [("build-warning", "warning", "kernel/scale.cu")]
    assert "build-warning" in [rule["id"] for rule in run["tool"]["driver"]["rules"]]


def test_shades() -> None:
    levels = {r["properties"]["outcome"]: (r["level"], "suppressions" in r) for r in run_of(SHADES)["results"]}
    assert levels == {"FAIL": ("warning", False), "INCONCLUSIVE": ("note", False), "WAIVED": ("note", True)}


def test_every_gate_is_a_rule_with_help_and_every_result_has_its_rule() -> None:
    run = run_of(RED)
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert list(rules) == list(dict.fromkeys(v.gate for v in RED.verdicts))
    assert "flashcore-ci explain max-diff" in rules["max-diff"]["help"]["markdown"]
    assert {result["ruleId"] for result in run["results"]} <= set(rules)


def test_a_run_that_an_error_ended_says_so() -> None:
    invocation = run_of(ERROR)["invocations"][0]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 3)
    assert "did you mean" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_names_from_elsewhere_make_uris() -> None:
    uris = [place(result)[0] for result in run_of(HOSTILE)["results"]]
    assert uris == ["a%7Cb.cu"]
    outside = verdict(
        "max-diff", "w", 1.0, Outcome.FAIL, Code.OVER_LIMIT, "m", findings=(Finding(tool="t", message="", file="/x y.h"),)
    )
    (result,) = run_of(replace(RED, verdicts=(outside,)))["results"]
    assert place(result) == ("file:///x%20y.h", 1)


def test_more_results_than_are_shown_are_counted() -> None:
    many = tuple(
        verdict("max-diff", f"w{number}", 1.0, Outcome.FAIL, Code.OVER_LIMIT, "m") for number in range(sarif.MOST_RESULTS + 7)
    )
    run = run_of(replace(RED, verdicts=many))
    assert len(run["results"]) == sarif.MOST_RESULTS
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith("7 more results")


@settings(deadline=None)
@given(text=st.text())
def test_any_text_gives_valid_sarif(text: str) -> None:
    finding = Finding(tool=text, message=text, kernel=text, file=text, line=3)
    red = verdict("max-diff", text, 1.0, Outcome.FAIL, Code.OVER_LIMIT, text, findings=(finding,), why=text, title=text)
    run_of(replace(RED, suite=text, headline=text, verdicts=(red, replace(red, findings=())), notes=(text,)))
