"""What counts as a control that was reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashcore_ci.adapters import sanitizer, sanitizer_log
from flashcore_ci.collect.positive_control import why_unreported
from flashcore_ci.model.metrics import SANITIZER_TOOLS

RECORDINGS = Path(__file__).parents[2] / "recordings/sanitizer"


def recorded(name: str) -> str:
    return (RECORDINGS / f"{name}.log").read_text(encoding="utf-8")


def reason(text: str, check: str, status: int | None = sanitizer.ERROR_EXIT) -> str:
    return why_unreported(sanitizer_log.parse(text, check), f"flashcore_ci_control_{check}", status)


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_each_tool_reported_its_control(check: str) -> None:
    assert reason(recorded(f"control-{check}"), check) == ""


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_a_clean_log_fails_the_control(check: str) -> None:
    assert "0 findings" in reason(recorded(f"clean-{check}"), check, 0)


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_a_truncated_log_fails_the_control(check: str) -> None:
    text = recorded(f"control-{check}")
    assert "no summary line" in reason(text[: text.index("SUMMARY")], check)


def test_a_bug_in_another_kernel_fails_the_control() -> None:
    text = recorded("control-memcheck").replace("flashcore_ci_control_memcheck", "another_kernel")
    assert "none of them in flashcore_ci_control_memcheck" in reason(text, "memcheck")


@pytest.mark.parametrize("status", [0, 1, None])
def test_the_exit_status_must_agree(status: int | None) -> None:
    assert "exit status" in reason(recorded("control-memcheck"), "memcheck", status)


def test_a_tool_that_lost_track_reported_nothing() -> None:
    text = recorded("control-memcheck").replace("Access to", "Internal Sanitizer Error: Access to")
    assert "Internal Sanitizer Error" in reason(text, "memcheck")


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_a_finding_that_the_summary_does_not_count_was_not_reported(check: str) -> None:
    text = re.sub(r"SUMMARY: \d+ errors?", "SUMMARY: 0 errors", recorded(f"control-{check}"))
    text = re.sub(r"\d+ hazards? displayed \(.*\)", "0 hazards displayed (0 errors, 0 warnings)", text)
    assert "0 findings" in reason(text, check)
