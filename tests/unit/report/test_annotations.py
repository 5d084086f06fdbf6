from __future__ import annotations

import re
from dataclasses import replace

import pytest
from golden.dossiers import DOSSIER
from golden.reports import ERROR, GREEN, HOSTILE, INCONCLUSIVE, RED, REPORTS, SHADES, verdict
from hypothesis import given
from hypothesis import strategies as st

from flashcore_ci.model.codes import Code
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.text import inert
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.report import annotations

COMMAND = re.compile(r"::(error|warning|notice) ([^:\n]*)::(.*)")


def commands(report: Report) -> list[tuple[str, dict[str, str], str]]:
    """Each line as GitHub's runner reads it."""
    lines = annotations.render(report, DOSSIER).splitlines()
    found = [COMMAND.fullmatch(line) for line in lines]
    assert None not in found
    return [(m[1], dict(pair.split("=", 1) for pair in m[2].split(",")), m[3]) for m in found if m]


def test_a_pass_says_nothing() -> None:
    assert annotations.render(GREEN, Dossier()) == ""


def test_a_finding_is_at_its_line_and_what_blocks_is_an_error() -> None:
    place = {"file": "kernel/include/flashcore/attention/body.cuh", "line": "112", "title": "racecheck%3A FAIL"}
    assert ("error", place) in [command[:2] for command in commands(RED)]
    assert {level for level, _, _ in commands(RED)} == {"error"}


def test_what_does_not_block_is_a_warning_or_a_notice() -> None:
    assert [(level, pairs["title"]) for level, pairs, _ in commands(SHADES)] == [
        ("warning", "sol-sm%3A FAIL (advisory)"),
        ("notice", "max-diff%3A INCONCLUSIVE (deferred)"),
    ]


def test_an_error_of_the_tool_is_one() -> None:
    ((level, _, message),) = commands(ERROR)
    assert level == "error"
    assert "did you mean max-diff?" in message


def test_at_most_ten_of_a_kind_and_the_rest_is_counted() -> None:
    found = commands(INCONCLUSIVE)
    assert len(found) == annotations.MOST_PER_LEVEL
    assert found[-1][2] == "21 more like these are in the step summary"


@pytest.mark.parametrize("name", REPORTS)
def test_no_report_makes_commands_of_its_own(name: str) -> None:
    commands(REPORTS[name])


def test_hostile_text_stays_in_its_message() -> None:
    assert "%0A" in commands(HOSTILE)[0][2] or "\\n" not in commands(HOSTILE)[0][2]
    assert "\x1b" not in annotations.render(HOSTILE, DOSSIER)


@given(text=st.text())
def test_any_text_stays_in_its_place(text: str) -> None:
    finding = Finding(tool="memcheck", message=text, file=text, line=3)
    red = verdict("max-diff", text, 1.0, Outcome.FAIL, Code.OVER_LIMIT, text, findings=(finding,))
    ((level, _, _),) = commands(replace(RED, verdicts=(red,)))
    assert level == "error"


@given(text=st.text() | st.lists(st.sampled_from(["::error::x", " ", "\t", "::", "##[", "\n", "\r"])).map("".join))
def test_inert_text_holds_no_command_and_loses_nothing_else(text: str) -> None:
    guarded = inert(text)
    for line in re.split(r"[\r\n]", guarded):
        assert not line.strip().startswith("::")
        assert "##[" not in line
    assert guarded.replace(" ", "") == text.replace(" ", "")
