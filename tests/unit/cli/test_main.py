from __future__ import annotations

import errno
import importlib
import sys
from pathlib import Path

import click
import pytest

from flashcore_ci.cli import crash_report, main
from flashcore_ci.model.errors import (
    CannotCollectError,
    EvidenceError,
    ExitCode,
    FlashcoreError,
    InterruptedRunError,
    SuiteError,
    UsageError,
)


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command("explain")
    def command() -> None:
        raise error

    monkeypatch.setattr("flashcore_ci.cli.explain.command", command)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no"), 2),
        (SuiteError(("one", "two")), 3),
        (CannotCollectError("no GPU"), 4),
        (EvidenceError("cut"), 4),
        (InterruptedRunError("stopped"), 11),
        (FlashcoreError("odd"), 1),
        (KeyboardInterrupt(), 11),
        (OSError(errno.ENOSPC, "No space left on device", "runs/latest/evidence.json"), 4),
        (OSError(errno.ENOENT, "No such file or directory"), 4),
        (OSError(errno.EBADF, "Bad file descriptor"), 1),
    ],
)
def test_each_error_has_its_exit_code(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    raising(monkeypatch, error)
    assert main.run(["explain"]) == code


def test_every_problem_of_a_suite_and_the_fix_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    raising(monkeypatch, SuiteError(("one", "two"), fix="do this"))
    main.run(["explain"])
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == ["flashcore-ci: one", "flashcore-ci: two", "fix: do this"]


def test_a_bug_is_one_line_and_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path) -> None:
    monkeypatch.setenv("FLASHCORE_CI_HOME", str(tmp_path))
    raising(monkeypatch, ZeroDivisionError("by zero\nat length"))
    assert main.run(["explain"]) == ExitCode.BUG
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert "a bug in the tool: ZeroDivisionError: by zero\n" in shown
    (file,) = (tmp_path / "bugs").iterdir()
    assert str(file) in shown
    assert "ZeroDivisionError" in file.read_text()


def test_a_bug_without_a_place_for_its_file_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("full")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert "ValueError: odd" in crash_report.keep(ValueError("odd"))


def test_usage_errors_are_clicks(capsys: pytest.CaptureFixture) -> None:
    assert main.run(["no-such-command"]) == ExitCode.USAGE
    assert main.run(["explain", "--no-such-option"]) == ExitCode.USAGE
    assert "No such option" in capsys.readouterr().err


def test_help_and_version_pass(capsys: pytest.CaptureFixture) -> None:
    assert main.run(["--help"]) == ExitCode.PASSED
    assert main.run(["--version"]) == ExitCode.PASSED
    shown = capsys.readouterr().out
    assert all(name in shown for name in main.COMMANDS)


def test_a_command_can_run_in_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()

    @click.command("explain")
    def command() -> int:
        assert Path.cwd() == tmp_path
        return 11

    monkeypatch.setattr("flashcore_ci.cli.explain.command", command)
    before = Path.cwd()
    assert main.run(["-C", str(tmp_path / "inner"), "explain"]) == ExitCode.INCONCLUSIVE
    assert Path.cwd() == before


@pytest.mark.parametrize("arguments", [["-C"], ["-C", "/no/such/folder", "plan"], ["-C", "/", "-C", "/", "plan"]])
def test_a_wrong_folder_is_a_usage_error(arguments: list[str]) -> None:
    assert main.run(arguments) == ExitCode.USAGE


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_is_where_the_table_says(name: str) -> None:
    command = importlib.import_module(f"flashcore_ci.cli.{main.MODULES.get(name, name)}").command
    assert command.name == name
    assert command.help


def test_a_command_that_returns_a_code_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("explain")
    def command() -> int:
        return ExitCode.GATE_FAILED

    monkeypatch.setattr("flashcore_ci.cli.explain.command", command)
    assert main.run(["explain"]) == 10


def test_a_command_that_forgets_its_code_did_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashcore_ci.cli.explain.command", click.Command("explain", callback=lambda: None))
    assert main.run(["explain"]) == ExitCode.BUG


def test_closed_streams_are_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    monkeypatch.setattr("sys.argv", ["flashcore-ci", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    for stream in (sys.stdout, sys.stderr):
        stream.close()


def test_options_for_slurm_without_an_end_are_a_usage_error(capsys: pytest.CaptureFixture) -> None:
    assert main.run(["fleet", "run", "--engine", "slurm", "--slurm", "--comment='x"]) == ExitCode.USAGE
    assert "--slurm has a quotation without an end" in capsys.readouterr().err
