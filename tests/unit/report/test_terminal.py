from __future__ import annotations

from dataclasses import replace

import pytest
from golden.reports import ERROR, GREEN, HOSTILE, INCONCLUSIVE, RED, REPORTS, SHADES

from flashcore_ci.report import terminal


def plain(report: object, width: int = 100) -> str:
    return terminal.render(report, width=width, color=False)


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    # Emoji and the like take two columns; rich counts cells, so only plain reports are measured by length.
    assert all(len(line) <= width for line in plain(REPORTS[name], width).splitlines())


@pytest.mark.parametrize("name", REPORTS)
def test_without_colour_there_is_no_escape_sequence(name: str) -> None:
    assert "\x1b" not in plain(REPORTS[name])


def test_colour_when_asked_for() -> None:
    assert "\x1b[" in terminal.render(RED, width=80, color=True)


def test_the_verdict_is_the_first_line() -> None:
    for report in REPORTS.values():
        assert plain(report).startswith(f" {report.outcome} ")


def test_each_red_shows_reading_limit_origin_and_next_step() -> None:
    text = plain(RED)
    assert "2.0004e-3 (limit 2e-3)" in text
    assert "live on NVIDIA H200, driver 580.159.04, 2026-11-21" in text
    assert text.count("next: ") == 3
    assert "kernel/include/flashcore/attention/body.cuh:112" in text


def test_reds_come_before_counts() -> None:
    text = plain(RED)
    assert text.index("BLOCKING") < text.index("closest to its limit")


def test_many_reds_of_one_reason_are_shown_once_and_counted() -> None:
    text = plain(INCONCLUSIVE)
    assert text.count("next: ") == 1
    assert "… and 26 more: max-diff 6, finite 10, stability 10" in text


def test_advisory_deferred_and_waived_are_listed_apart() -> None:
    text = plain(SHADES)
    assert "BLOCKING" not in text
    for title in ("DEFERRED TO THE GPU JOB (1 check)", "ADVISORY (1 check)", "WAIVED (1 check)"):
        assert title in text


def test_tool_output_cannot_drive_the_terminal() -> None:
    for color in (False, True):
        text = terminal.render(HOSTILE, width=100, color=color)
        assert "\x1b[31m" not in text
        assert "\x1b]0;" not in text
        assert "\u202e" not in text


def test_a_report_without_checks_says_its_error() -> None:
    assert ERROR.headline in plain(ERROR, 200)


def test_counts_add_up() -> None:
    for report in (GREEN, RED, SHADES):
        rows = terminal.tallies(report)
        total = sum(r.passed + r.failed + r.inconclusive + r.waived + r.advisory + r.deferred for r in rows)
        assert total == len(report.verdicts)


def test_an_odd_width_does_not_fail() -> None:
    assert plain(replace(RED, headline="x" * 500), 1)
