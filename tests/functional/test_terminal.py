"""Check the output on a wide, a narrow and a colourless terminal, and in a log. The terminal is a pseudo-terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from replayed import COMMAND

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
CLEAR = "\r\x1b[2K"


def seen(checkout: Path, environment: dict[str, str], *arguments: str, columns: int = 80, **variables: str) -> tuple[int, str]:
    """Return the exit code and everything sent to a terminal of this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in environment.items() if name not in {"NO_COLOR", "CI", "GITHUB_ACTIONS", "COLUMNS"}}
    child = subprocess.Popen(
        [*COMMAND, *arguments], cwd=checkout, env={**kept, "TERM": "xterm-256color", **variables}, stdout=slave, stderr=slave
    )
    os.close(slave)
    said = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # Linux raises this when the other end is closed
            break
        if not block:
            break
        said += block
    os.close(master)
    return child.wait(timeout=600), said.decode().replace("\r\n", "\n")


GATE = ("gate", "--suite", "suite.toml", "--recorded")


def test_a_terminal_has_colour_and_one_line_that_changes(checkout: Path, environment: dict[str, str]) -> None:
    status, said = seen(checkout, environment, *GATE)
    assert status == 11
    assert f"{CLEAR}asking the subjects what they are" in said
    progress, _, report = said.rpartition(CLEAR)
    assert "\n" not in progress
    assert "\x1b[" in report
    assert "INCONCLUSIVE" in report


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_is_never_wrapped(checkout: Path, environment: dict[str, str], columns: int) -> None:
    _, said = seen(checkout, environment, *GATE, columns=columns)
    progress, _, report = said.rpartition(CLEAR)
    assert all(len(ANSI.sub("", part)) < columns for part in progress.split(CLEAR))
    lines = [line for line in ANSI.sub("", report).splitlines() if not line.startswith("reports: ")]
    assert lines
    assert [line for line in lines if len(line) > columns] == []


def test_without_colour(checkout: Path, environment: dict[str, str]) -> None:
    _, said = seen(checkout, environment, *GATE, NO_COLOR="1")
    assert re.findall(r"\x1b\[[0-9;]*m", said) == []
    assert CLEAR in said  # clearing a line is not colour


@pytest.mark.parametrize("variables", [{"CI": "true"}, {"TERM": "dumb"}])
def test_a_log_has_no_spinner(checkout: Path, environment: dict[str, str], variables: dict[str, str]) -> None:
    _, said = seen(checkout, environment, *GATE, **variables)
    assert "\r" not in said
    assert "\x1b[2K" not in said
    assert said.startswith("asking the subjects what they are")


def test_an_error_starts_on_its_own_line(checkout: Path, environment: dict[str, str]) -> None:
    subject = checkout / "subject.py"
    subject.write_text("raise ValueError('no')\n" + subject.read_text())
    status, said = seen(checkout, environment, *GATE)
    assert status != 0
    assert f"{CLEAR}flashcore-ci: " in said


def test_json_goes_to_standard_output_and_everything_else_to_standard_error(cli) -> None:
    done = cli(*GATE, "--json")
    assert json.loads(done.stdout)["outcome"] == "INCONCLUSIVE"
    assert "asking the subjects" in done.stderr
    assert " INCONCLUSIVE " in done.stderr
    assert json.loads(cli("plan", "--suite", "suite.toml", "--json").stdout)["suite"] == "twice"


def test_the_second_run_says_how_long_it_will_take(cli, tmp_path: Path) -> None:
    home = {"FLASHCORE_CI_HOME": str(tmp_path / "home")}
    assert "left)" not in cli("plan", "--suite", "suite.toml", **home).stderr
    kept = tmp_path / "home/durations.json"
    ((command, stages),) = json.loads(kept.read_text()).items()
    assert stages.keys() == {"asking the subjects what they are"}
    kept.write_text(json.dumps({command: dict.fromkeys(stages, 4.0)}))  # on a busy machine it may have been a minute
    assert "asking the subjects what they are (a few seconds left)" in cli("plan", "--suite", "suite.toml", **home).stderr


# --- Completion ------------------------------------------------------------------------------------------------------------


def completed(cli, *words: str) -> list[str]:
    """Return what bash offers for the last of these words."""
    asked = {"_FLASHCORE_CI_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return [line.partition(",")[2] for line in cli(**asked).stdout.splitlines()]


def test_commands_options_and_choices_are_completed(cli) -> None:
    assert completed(cli, "flashcore-ci", "do") == ["doctor"]
    assert {"gate", "plan", "judge", "doctor"} <= set(completed(cli, "flashcore-ci", ""))
    assert completed(cli, "flashcore-ci", "gate", "--sta") == ["--stale"]
    assert completed(cli, "flashcore-ci", "gate", "--stale", "") == ["block", "defer"]


def test_gates_and_codes_are_completed(cli) -> None:
    assert completed(cli, "flashcore-ci", "explain", "--suite", "suite.toml", "max") == ["max-diff"]
    assert completed(cli, "flashcore-ci", "explain", "han") == ["hang"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_completion_script(cli, shell: str) -> None:
    done = cli(_FLASHCORE_CI_COMPLETE=f"{shell}_source")
    assert done.returncode == 0, done.stderr
    assert "_FLASHCORE_CI_COMPLETE" in done.stdout
