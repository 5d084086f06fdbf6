from __future__ import annotations

from dataclasses import replace

import pytest
from golden.reports import GREEN, RED, passed
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
    [(0.0, "count", "0 count"), (1234567.0, "byte", "1234567 byte"), (0.00098, "abs", "0.00098 abs"), (83.4321, "%", "83.43 %")],
)
def test_number(value: float, unit: str, text: str) -> None:
    assert formatting.number(value, unit) == text


@given(st.floats(min_value=1e-6, max_value=1e6), st.floats(min_value=1e-6, max_value=1e6))
def test_a_reading_never_looks_like_a_limit_that_it_is_not(value: float, limit: float) -> None:
    shown = formatting.reading(replace(passed("sol-sm", "w", value), limit=limit))
    if value != limit:
        assert shown != formatting.number(limit, "%", digits=17)
        assert float(shown.split()[0]) != limit or abs(value - limit) < 1e-15 * limit


def test_missing_reading_shows_its_code() -> None:
    missing = replace(GREEN.verdicts[0], reading=Missing(code=Code.NO_EVIDENCE, message="none"))
    assert formatting.reading(missing) == "no reading (no-evidence)"


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
