"""The lowest versions are those of pyproject.toml, and every command is tried."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from flashcore_ci.cli import history
from flashcore_ci.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[3]


@pytest.fixture
def lowest(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".github/checks"))
    return importlib.import_module("lowest_versions")


def test_every_dependency_has_a_floor(lowest: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert lowest.main([]) == 0
    assert "click==8.5" in capsys.readouterr().out.splitlines()
    assert lowest.constraints('[project]\ndependencies = ["a>=1.2", "b==3", "c[d]>=4"]') == ["a==1.2", "b==3", "c==4"]


@pytest.mark.parametrize("dependency", ["a", "a<2", "a>=1,<2"])
def test_a_dependency_without_a_plain_floor_is_refused(lowest: ModuleType, dependency: str) -> None:
    with pytest.raises(ValueError, match="no lower bound"):
        lowest.constraints(f'[project]\ndependencies = ["{dependency}"]')


def test_every_command_is_found_in_the_help(lowest: ModuleType) -> None:
    assert lowest.commands(CliRunner().invoke(cli, ["--help"]).output) == list(COMMANDS)
    assert lowest.commands("Usage: flashcore-ci gate\n\nOptions:\n  --help  Show this.\n") == []


def test_what_fails_is_named(lowest: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise TypeError("an older version")

    def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, int("judge" in argv))

    monkeypatch.setattr(history.command.commands["list"], "get_help", lambda _: broken())
    monkeypatch.setattr(lowest.subprocess, "run", run)
    assert lowest.main(["--try", "/nowhere/flashcore-ci"]) == 1
    failed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("failed:")]
    assert failed[0] == "failed: flashcore-ci history list --help"
    assert failed[1].startswith("failed: /nowhere/flashcore-ci judge ")
    assert len(failed) == 2
