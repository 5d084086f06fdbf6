"""What counts as a control that was reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashcore_ci.adapters import sanitizer
from flashcore_ci.collect.positive_control import unreported
from flashcore_ci.model.metrics import SANITIZER_TOOLS

RECORDINGS = Path(__file__).parents[2] / "recordings/sanitizer"


def recorded(name: str) -> str:
    return (RECORDINGS / f"{name}.log").read_text(encoding="utf-8")


def said(text: str, check: str, status: int | None = sanitizer.ERROR_EXIT) -> str:
    return unreported(sanitizer.parse(text, check), f"flashcore_ci_control_{check}", status)


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_each_tool_reported_its_control(check: str) -> None:
    assert said(recorded(f"control-{check}"), check) == ""


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_a_clean_log_is_no_control(check: str) -> None:
    assert "0 findings" in said(recorded(f"clean-{check}"), check, 0)


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_a_log_that_was_cut_is_no_control(check: str) -> None:
    text = recorded(f"control-{check}")
    assert "no summary line" in said(text[: text.index("SUMMARY")], check)


def test_what_another_kernel_did_is_no_control() -> None:
    text = recorded("control-memcheck").replace("flashcore_ci_control_memcheck", "somebody_else")
    assert "none of them in flashcore_ci_control_memcheck" in said(text, "memcheck")


@pytest.mark.parametrize("status", [0, 1, None])
def test_the_exit_status_must_say_so_too(status: int | None) -> None:
    assert "exit status" in said(recorded("control-memcheck"), "memcheck", status)


def test_a_tool_that_lost_track_reported_nothing() -> None:
    text = recorded("control-memcheck").replace("Access to", "Internal Sanitizer Error: Access to")
    assert "Internal Sanitizer Error" in said(text, "memcheck")


@pytest.mark.parametrize("check", SANITIZER_TOOLS)
def test_a_finding_that_the_summary_does_not_count_was_not_reported(check: str) -> None:
    text = re.sub(
        r"(ERROR SUMMARY: |RACECHECK SUMMARY: |\()\d+( errors?| hazards? displayed)", r"\g<1>0\2", recorded(f"control-{check}")
    )
    text = re.sub(r"\d+ warnings?\)", "0 warnings)", text)
    assert "0 findings" in said(text, check)
