"""A release is refused while a placeholder remains."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def check_release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".github/checks"))
    return importlib.import_module("check_release")


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    for folder in ("flashcore_ci", ".github"):
        (tmp_path / folder).mkdir()
    (tmp_path / "flashcore_ci/__init__.py").write_text('__version__ = "1.2.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2027-01-01)\n", encoding="utf-8")
    (tmp_path / ".github/CODEOWNERS").write_text("* @someone/maintainers\n", encoding="utf-8")
    return tmp_path


def test_a_complete_checkout_is_ready(check_release: ModuleType, ready: Path) -> None:
    assert check_release.main(ready) == 0


def test_an_id_that_is_not_filled_in_is_refused(check_release: ModuleType, ready: Path) -> None:
    (ready / ".github/rulesets.json").write_text(
        '{\n  "repository_id": 0,\n  "ids": [\n    0\n  ],\n  "count": 10\n}\n', encoding="utf-8"
    )
    assert [problem.split(":")[1] for problem in check_release.problems(ready)] == ["2", "4"]


@pytest.mark.parametrize("file", [".github/CODEOWNERS", "pyproject.toml", "README.md"])
def test_a_placeholder_is_refused_with_its_line(check_release: ModuleType, ready: Path, file: str) -> None:
    (ready / file).write_text("first\n@OWNER/maintainers\n", encoding="utf-8")
    (problem,) = check_release.problems(ready)
    assert problem.startswith(f"{file}:2: ")
    assert check_release.main(ready) == 1


def test_a_version_without_a_changelog_is_refused(check_release: ModuleType, ready: Path) -> None:
    (ready / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n", encoding="utf-8")
    (problem,) = check_release.problems(ready)
    assert "1.2.0" in problem


def test_owners_and_urls_of_this_checkout_are_looked_at(check_release: ModuleType) -> None:
    looked_at = {path for pattern in check_release.FILES for path in ROOT.glob(pattern)}
    assert {ROOT / name for name in (".github/CODEOWNERS", "pyproject.toml", "README.md", "docs/github.md")} <= looked_at
