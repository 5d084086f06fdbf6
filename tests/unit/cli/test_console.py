from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
from golden.reports import RED

from flashcore_ci.cli import console, eta
from flashcore_ci.run.durations import Durations
from flashcore_ci.store.run import REPORTS


class Terminal:
    """Standard output or error of a terminal."""

    def __init__(self, stream: object) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return True

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def pretend_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """To be called in the test itself: pytest sets its own streams between fixtures and test."""
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))


def show_two_stages(environ: dict[str, str], before: dict[str, float] | None = None) -> None:
    """Two stages of ten seconds each."""
    moments = itertools.count(0, 10)
    known = click.Context(click.Command("gate"), info_name="gate")
    with known:
        if before:
            Durations.at_home(environ, eta.command_key()).save(before)
        with console.ProgressLine(environ, now=lambda: float(next(moments))) as progress:
            progress("one")
            progress("two")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


def test_a_log_gets_plain_lines(capsys: pytest.CaptureFixture) -> None:
    show_two_stages({})
    assert capsys.readouterr().err == "one\ntwo\n"


@pytest.mark.parametrize("environ", [{"CI": "true"}, {"TERM": "dumb"}])
def test_a_terminal_that_is_none_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, environ: dict[str, str]
) -> None:
    pretend_terminal(monkeypatch)
    show_two_stages(environ)
    assert capsys.readouterr().err == "one\ntwo\n"


def test_a_log_says_how_long_it_took_the_last_time(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    show_two_stages({"FLASHCORE_CI_HOME": str(tmp_path)}, {"one": 30.0, "two": 100.0})
    assert capsys.readouterr().err == "one (about 2 min left)\ntwo (about 2 min left)\n"
    with click.Context(click.Command("gate"), info_name="gate"):
        seconds = Durations.at_home({"FLASHCORE_CI_HOME": str(tmp_path)}, eta.command_key()).load()
    assert list(seconds) == ["one", "two"]


def test_with_json_all_that_is_for_people_goes_aside(capsys: pytest.CaptureFixture) -> None:
    console.show_results(RED, Path("out"), as_json=True, environ={})
    shown = capsys.readouterr()
    assert json.loads(shown.out)["outcome"] == "FAIL"
    assert " FAIL " in shown.err.splitlines()[0]
    assert "reports: out/" in shown.err


def test_a_terminal_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    pretend_terminal(monkeypatch)
    show_two_stages({"TERM": "xterm"})
    shown = capsys.readouterr().err
    assert "\n" not in shown
    assert shown.endswith(console.CLEAR_LINE)


@pytest.mark.parametrize(
    ("environ", "coloured"), [({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, environ: dict[str, str], coloured: bool
) -> None:
    pretend_terminal(monkeypatch)
    console.show(RED, environ)
    assert ("\x1b[" in capsys.readouterr().out) == coloured


@pytest.mark.parametrize(("environ", "coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_colour_in_a_log(capsys: pytest.CaptureFixture, environ: dict[str, str], coloured: bool) -> None:
    console.show(RED, environ)
    assert ("\x1b[" in capsys.readouterr().out) == coloured


def test_where_the_reports_are(capsys: pytest.CaptureFixture) -> None:
    console.show_results(RED, Path("out"), as_json=False, environ={})
    assert f"reports: out/{', '.join(REPORTS)}" in capsys.readouterr().err


def test_in_a_log_of_github_nothing_reads_as_a_command(capsys: pytest.CaptureFixture) -> None:
    hostile = replace(RED, headline="red", notes=("a\u2028::add-path::/tmp", "##[error]x"))
    console.show(hostile, {"GITHUB_ACTIONS": "true"})
    lines = capsys.readouterr().out.splitlines()
    assert not any(line.strip().startswith("::") or "##[" in line for line in lines)
