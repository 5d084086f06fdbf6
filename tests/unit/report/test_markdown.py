from __future__ import annotations

from dataclasses import replace

from golden.reports import GREEN, HOSTILE, INCONCLUSIVE, RED, SHADES, passed
from hypothesis import given
from hypothesis import strategies as st

from flashcore_ci.model.verdict import Report
from flashcore_ci.report import markdown


def test_the_verdict_is_the_first_line() -> None:
    assert markdown.render(RED).startswith("# ❌ FAIL: 4 of 10 checks")
    assert markdown.render(GREEN).startswith("# ✅ PASS: 6 of 6 checks passed")


def test_every_verdict_shows_measured_limit_and_origin() -> None:
    text = markdown.render(RED)
    for verdict in RED.verdicts:
        rows = [line for line in text.splitlines() if markdown.escape(verdict.target) in line and line.startswith("|")]
        assert rows
    assert "| 2.0004e-3 | 2e-3 | live on NVIDIA H200, driver 580.159.04, 2026-11-21 |" in text


def test_sections_in_order_of_importance() -> None:
    text = markdown.render(replace(SHADES, verdicts=(*SHADES.verdicts, *INCONCLUSIVE.verdicts)))
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert [title.split(" (")[0] for title in titles] == [
        "## Blocking",
        "## Deferred to the GPU job",
        "## Gates",
        "## Advisory",
        "## Waived",
    ]


def test_tool_output_is_text() -> None:
    text = markdown.render(HOSTILE)
    assert "<script>" not in text
    assert "<b>" not in text
    assert "](javascript" not in text
    assert "@everyone" not in text
    for line in text.splitlines():
        if line.startswith("| weird"):
            assert line.replace("\\\\", "").replace("\\|", "").count("|") == 6


def huge(count: int) -> Report:
    return replace(GREEN, verdicts=tuple(passed("finite", f"w{i}-{'x' * 100}", 0.0) for i in range(count)))


def test_at_most_one_mebibyte_and_says_what_is_left_out() -> None:
    text = markdown.render(huge(20_000))
    assert len(text.encode()) <= 1 << 20
    assert "more parts did not fit" in text.splitlines()[-1]
    assert text.count("<details>") == text.count("</details>")


def test_nothing_is_left_out_of_a_small_report() -> None:
    assert "did not fit" not in markdown.render(huge(500))


@given(st.text(st.characters(codec=None)))
def test_escape_leaves_one_line_without_markup(text: str) -> None:
    escaped = markdown.escape(text)
    assert "\n" not in escaped
    assert not set("<>@") & set(escaped)
    escaped.encode()
