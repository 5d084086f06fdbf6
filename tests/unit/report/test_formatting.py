from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from golden.reports import ERROR, GREEN, INCONCLUSIVE, RECORDED, RED, passed
from hypothesis import given
from hypothesis import strategies as st
from report_factories import make_report, make_verdict

from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Rule
from flashcore_ci.model.verdict import Origin, Reason
from flashcore_ci.report import formatting


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "count", "0"),
        (1234567.0, "count", "1,234,567"),
        (1.0, "byte", "1 byte"),
        (148480.0, "byte", "148,480 bytes"),
        (0.00098, "abs", "9.8e-4"),
        (0.125, "abs", "0.125"),
        (0.0, "abs", "0"),
        (0.85, "Mcycle", "0.85 Mcycles"),
        (53.0, "C", "53 °C"),
        (83.4321, "%", "83.43 %"),
    ],
)
def test_number(value: float, unit: str, text: str) -> None:
    assert formatting.number(value, unit) == text


@pytest.mark.parametrize(
    ("gate", "value", "changes", "text"),
    [
        ("racecheck", 3.0, {}, "3 findings (limit 0)"),
        ("build", 1.0, {}, "1 error (limit 0)"),
        ("finite", 1.0, {}, "1 bad value (limit 0)"),
        ("finite", 4.0, {"gate": "anything"}, "4 (limit 0)"),
        ("racecheck", 4.0, {"rule": Rule.AT_LEAST, "limit": 5.0}, "4 (minimum 5)"),
        ("racecheck", 4.0, {"limit": 5.0}, "4 findings (must be exactly 5)"),
        ("max-diff", 0.0009766, {}, "9.8e-4 (limit 2e-3)"),
        ("max-diff", 0.0020004, {}, "2.0004e-3 (limit 2e-3)"),
        ("sol-sm", 51.375, {}, "51.38 % (minimum 70 %)"),
        ("stability", 2.0, {}, "2 % (must be below 2 %)"),
        ("registers", 100.0, {}, "100 % (limit 100 %)"),
        ("registers", 16.0, {"gate": "spills", "reading": Measured(value=16.0, unit="byte"), "limit": 0.0, "unit": "byte"}, "16 bytes (limit 0)"),
    ],
)  # fmt: skip
def test_a_value_and_its_limit_read_as_people_say_them(gate: str, value: float, changes: dict[str, Any], text: str) -> None:
    assert formatting.with_limit(replace(passed(gate, "w", value), **changes)) == text


def test_the_evidence_in_one_sentence() -> None:
    assert formatting.evidence_summary(GREEN) == "All 6 checks were judged live (H200, 2026-11-21)."
    no_gpu = (
        "No GPU here: 1 of 32 checks were judged on recordings (H200, 2026-11-21, commit 0123456), 1 live, 30 without evidence."
    )
    assert formatting.evidence_summary(INCONCLUSIVE) == no_gpu
    recorded = tuple(replace(v, origin=RECORDED) for v in GREEN.verdicts)
    judged = formatting.evidence_summary(replace(GREEN, verdicts=recorded))
    assert judged == "6 of 6 checks were judged on recordings (H200, 2026-11-21, commit 0123456)."
    other = replace(recorded[0], origin=Origin(kind="recorded", detail="NVIDIA B200, driver 600, 2026-12-01, commit fffffff"))
    several = formatting.evidence_summary(replace(GREEN, verdicts=(*recorded[1:], other)))
    assert "on 2 recordings (H200, 2026-11-21, commit 0123456; B200, 2026-12-01, commit fffffff)" in several
    nothing = tuple(replace(v, origin=Origin(kind="none")) for v in GREEN.verdicts[2:])
    built = replace(GREEN, verdicts=(*GREEN.verdicts[:2], *nothing))
    assert formatting.evidence_summary(built) == "No GPU here: 4 of 6 checks have no evidence, 2 live."
    assert formatting.evidence_summary(ERROR) == ""


def test_both_commits_are_named() -> None:
    assert formatting.commits(GREEN) == "judged commit 89abcde, evidence of commit 0123456"
    same = replace(GREEN, judged_commit=GREEN.provenance.commit)
    assert formatting.commits(same) == "judged commit 0123456, evidence of the same commit"
    assert formatting.commits(replace(GREEN, judged_commit="", provenance=None)) == "judged commit unknown"


def test_code_loses_its_backticks_and_what_is_not_code_keeps_them() -> None:
    assert formatting.plain("run `flashcore-ci gate`\nnow") == "run flashcore-ci gate now"
    assert formatting.plain("a ` and `<b>`") == "a ` and `<b>`"


@given(st.floats(min_value=1e-6, max_value=1e6), st.floats(min_value=1e-6, max_value=1e6))
def test_a_reading_never_looks_like_a_limit_that_it_is_not(value: float, limit: float) -> None:
    shown = formatting.reading(replace(passed("sol-sm", "w", value), limit=limit))
    if value != limit:
        assert shown != formatting.number(limit, "%", digits=17)
        assert float(shown.split()[0]) != limit or abs(value - limit) < 1e-15 * limit


def test_missing_reading_shows_its_code() -> None:
    missing = replace(GREEN.verdicts[0], reading=Missing(code=Code.NO_EVIDENCE, message="none"))
    assert formatting.reading(missing) == "no reading: no-evidence"


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (Origin(kind="live"), "live"),
        (Origin(kind="live", detail="nvcc 13.0.88"), "live on nvcc 13.0.88"),
        (
            Origin(kind="recorded", detail="NVIDIA H200, driver 580, 2026-11-21"),
            "recorded on NVIDIA H200, driver 580, 2026-11-21",
        ),
        (Origin(kind="recorded"), "recorded"),
        (Origin(kind="none"), "no evidence"),
    ],
)
def test_origin(origin: Origin, text: str) -> None:
    assert formatting.origin(origin) == text


def test_closeness_orders_by_share_of_the_limit() -> None:
    at = replace(passed("sol-sm", "w", 70.0), rule=Rule.AT_LEAST)
    far = replace(passed("sol-sm", "w", 90.0), rule=Rule.AT_LEAST)
    assert formatting.closeness(at) == 1.0
    assert formatting.closeness(far) < 1.0
    assert formatting.closeness(replace(at, reading=Measured(value=0.0, unit="%"))) == 1.0
    assert formatting.closeness(passed("finite", "w", 0.0)) == 0.0
    assert formatting.closeness(RED.verdicts[-1]) == -1.0


@given(st.text(st.characters(codec=None)))
def test_printable_is_one_printable_line(text: str) -> None:
    shown = formatting.printable(text)
    assert shown.isprintable()
    shown.encode()


def test_a_comparison_that_passed_says_how():
    faster, same = (
        make_verdict("no-slower", target=code, reason=Reason(code=code, message="")) for code in (Code.FASTER, Code.SAME)
    )
    assert formatting.label(faster) == "PASS (faster)"
    assert formatting.speeds(make_report((faster, same, same, make_verdict()))) == ["no-slower: 1 faster, 2 same"]
