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


def test_the_second_line_says_what_the_verdict_rests_on() -> None:
    assert plain(GREEN).splitlines()[1] == "All 6 checks were judged live (H200, 2026-11-21)."
    assert plain(INCONCLUSIVE, 200).splitlines()[1].startswith("No GPU here: 1 of 32 checks were judged on recordings (H200, ")
    assert "judged commit 89abcde, evidence of commit 0123456" in plain(GREEN)


def test_a_pass_starts_with_a_green_line_for_each_kind_of_evidence() -> None:
    assert " ✓ correctness      2 of 2 passed" in plain(GREEN)
    assert " · correctness      2 of 3 passed" in plain(SHADES)
    assert "\x1b[32m ✓ correctness" in terminal.render(GREEN, width=80, color=True)
    assert "✓" not in plain(RED)


def test_what_blocks_comes_before_the_table_and_what_is_advisory_after_it_in_its_own_colour() -> None:
    text = plain(replace(SHADES, verdicts=(*SHADES.verdicts, *RED.verdicts)))
    places = [text.index(words) for words in ("BLOCKING", "DEFERRED", "closest to its limit", "ADVISORY", "WAIVED")]
    assert places == sorted(places)
    assert "\x1b[1;35mADVISORY" in terminal.render(SHADES, width=80, color=True)


def test_code_is_shown_without_backticks() -> None:
    assert "flashcore-ci must not let a wrong kernel merge" in plain(SHADES)
    assert "`" not in plain(SHADES)


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
        total = sum(sum(row.counts.values()) for row in rows)
        assert total == len(report.verdicts)


def test_an_odd_width_does_not_fail() -> None:
    assert plain(replace(RED, headline="x" * 500), 1)
