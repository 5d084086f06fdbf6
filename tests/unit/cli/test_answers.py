"""`--json` on every command and on every exit code, and errors that say what was meant."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import click
import pytest

from flashcore_ci.cli import main, options
from flashcore_ci.model.errors import CannotCollectError, ExitCode, InterruptedRunError, SuiteError, UsageError
from flashcore_ci.model.text import visible

GROUPS = {
    "alerts": ("list", "triage", "update"),
    "baseline": ("propose", "renew"),
    "dashboard": ("build", "serve", "digest"),
    "fleet": ("run",),
    "history": ("add", "list", "show", "export", "retain", "upgrade", "anchor pin", "anchor replace"),
    "toolchain": ("install",),
}
LEAVES = [name for group in main.COMMANDS for name in (f"{group} {leaf}".strip() for leaf in GROUPS.get(group, ("",)))]


def command_of(name: str) -> click.Command:
    command: click.Command = main.cli
    with click.Context(command) as context:
        for word in name.split():
            command = command.get_command(context, word)  # type: ignore[attr-defined]
    return command


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_it(name: str) -> None:
    assert "--json" in {option for parameter in command_of(name).params for option in parameter.opts}


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command("explain")
    @options.suite
    @options.as_json
    def command(**_: object) -> None:
        raise error

    monkeypatch.setattr("flashcore_ci.cli.explain.command", command)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no", fix="do"), 2),
        (SuiteError(("one", "two"), fix="do"), 3),
        (CannotCollectError("no GPU", fix="do"), 4),
        (InterruptedRunError("stopped"), 11),
        (KeyboardInterrupt(), 11),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 4),
        (ZeroDivisionError("by zero"), 1),
    ],
)
def test_each_error_is_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path, error: BaseException, code: int
) -> None:
    monkeypatch.setenv("FLASHCORE_CI_HOME", str(tmp_path))
    raising(monkeypatch, error)
    assert main.run(["explain", "--json"]) == code
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert set(answer) == {"error", "fix", "exit_code"}
    assert answer["exit_code"] == code
    assert answer["error"]
    assert "flashcore-ci: " in shown.err


@pytest.mark.parametrize(("error", "code"), [(UsageError("no", fix="do"), 2), (ZeroDivisionError("by zero"), 1), (None, 4)])
def test_a_full_disk_behind_standard_output_is_one_line(monkeypatch, capsys, tmp_path, error, code: int) -> None:
    monkeypatch.setenv("FLASHCORE_CI_HOME", str(tmp_path))
    if error is not None:
        raising(monkeypatch, error)
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert main.run(["explain", "--json", *([] if error else ["over-limit"])]) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert error is not None or said.startswith("flashcore-ci: cannot write /dev/full: No space left on device\n")


@pytest.mark.parametrize(
    "arguments", [["gaet"], ["gate", "--siute", "x"], ["gate", "--stale", "maybe"], ["judge"], ["explain"], ["gate", "--jobs"]]
)
def test_wrong_usage_too(capsys: pytest.CaptureFixture, arguments: list[str]) -> None:
    assert main.run([*arguments[:1], "--json", *arguments[1:]]) == ExitCode.USAGE
    answer = json.loads(capsys.readouterr().out)
    assert answer["exit_code"] == 2
    assert answer["fix"].startswith("flashcore-ci")


def test_after_two_dashes_it_is_a_name(capsys: pytest.CaptureFixture) -> None:
    assert main.run(["explain", "--", "--json", "x"]) == ExitCode.USAGE
    assert capsys.readouterr().out == ""


def test_success_is_the_result(capsys: pytest.CaptureFixture) -> None:
    assert main.run(["explain", "over-limit", "--json"]) == ExitCode.PASSED
    answer = json.loads(capsys.readouterr().out)
    assert answer["exit_code"] == 0
    assert "error" not in answer
    assert "FAIL" in answer["text"]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["gaet"], "gate"),
        (["paln"], "plan"),
        (["self-test"], "selftest"),
        (["gate", "--siute", "x"], "--suite"),
        (["plan", "--onyl"], "--only"),
    ],
)
def test_what_was_meant(capsys: pytest.CaptureFixture, arguments: list[str], meant: str) -> None:
    assert main.run(arguments) == ExitCode.USAGE
    error, fix = capsys.readouterr().err.splitlines()
    assert f"(did you mean {meant}?)" in error
    assert fix.startswith("fix: flashcore-ci")


def test_a_word_that_is_nothing_has_the_help(capsys: pytest.CaptureFixture) -> None:
    assert main.run(["xyzzy"]) == ExitCode.USAGE
    assert capsys.readouterr().err.splitlines()[1] == "fix: flashcore-ci --help"


def test_the_fix_keeps_the_options_of_the_user(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    raising(monkeypatch, SuiteError(("wrong",), fix="correct the file, then run `flashcore-ci plan`"))
    main.run(["explain", "--suite", "x y.toml"])
    assert "fix: correct the file, then run `flashcore-ci plan --suite 'x y.toml'`" in capsys.readouterr().err
    main.run(["explain"])
    assert "run `flashcore-ci plan`\n" in capsys.readouterr().err


def test_json_holds_no_control_character(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    hostile = "a\x1b[2J\u202e\u2028::error::\n##[error]\x9b\ud800"
    raising(monkeypatch, UsageError(hostile, fix=hostile))
    main.run(["explain", "--json"])
    out = capsys.readouterr().out
    assert out.isascii()
    assert visible(out) == out
    assert not any(line.strip().startswith(("::", "##[")) for line in out.splitlines())
    assert json.loads(out)["fix"] == hostile
