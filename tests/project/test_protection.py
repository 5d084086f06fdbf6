"""CODEOWNERS and the exported rulesets cover every file that a green depends on."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import workflow_runner
from scripts import script

ROOT = Path(__file__).parents[2]


protection, locks = script("check_protection"), script("check_locks")
OWNERS = (ROOT / protection.CODEOWNERS).read_text(encoding="utf-8")
PLACES = (".ci", ".github", "docs", "flashcore_ci", "gates", "kernel", "tests", "tools", "")
FOUND = [path for place in PLACES for path in ((ROOT / place).rglob("*") if place else ROOT.iterdir())]
TRACKED = [
    str(path.relative_to(ROOT)) for path in FOUND if path.is_file() and "__pycache__" not in path.parts and path.name != ".git"
]


def test_what_ships_is_protected() -> None:
    assert list(protection.unowned(OWNERS, TRACKED)) == []
    for name, check in protection.CHECKS.items():
        assert list(check(json.loads((ROOT / protection.RULESETS / name).read_text(encoding="utf-8")))) == [], name


def depends() -> list[str]:
    """Name every file that a green depends on, from the workflows, the suites and the package themselves."""
    found = [
        path for path in TRACKED if path.startswith((".github/", "flashcore_ci/", "tests/", ".ci/")) and "__pycache__" not in path
    ]
    for suite in (ROOT / "gates").glob("*.toml"):
        content = tomllib.loads(suite.read_text(encoding="utf-8"))
        found += [f"gates/{suite.name}", *(subject["file"] for subject in content.get("subject", ()))]
    found += [
        path for path in TRACKED if path.startswith(("gates/noise/", "gates/baselines/", "gates/evidence/", "kernel/defects/"))
    ]
    return [*found, "Makefile", "pyproject.toml", ".importlinter"]


def test_every_file_that_a_green_depends_on_has_one_owner_without_the_first_line_too() -> None:
    assert len(depends()) > 300
    assert list(protection.unowned(OWNERS, depends())) == []
    assert not any(protection.FREE.fullmatch(path) for path in depends() if not path.endswith(".md"))
    without = OWNERS.replace("* @OWNER/maintainers\n", "x @OWNER/maintainers\n", 1)
    lost = [line for line in protection.unowned(without, depends()) if "belongs to nobody" in line]
    assert lost == []


def test_the_lock_files_are_covered() -> None:
    assert list(locks.problems(ROOT)) == []
    names = [f"{locks.LOCKS}/{name}" for name in locks.needed(ROOT)]
    assert all((ROOT / name).is_file() for name in names)
    assert list(protection.unowned(OWNERS, names)) == []


@pytest.mark.parametrize("extra", ["", "[measure]"])
def test_pip_takes_nothing_without_a_hash_or_from_an_index(extra: str) -> None:
    commands = script("run").pip_commands(Path("venv"), extra)
    assert commands
    for command in commands:
        assert {"--require-hashes", "--only-binary=:all:"} <= set(command) or {"--no-index", "--no-deps"} <= set(command)
    assert any(f"{locks.LOCKS}/measure.lock" in str(word) for word in commands[0]) == bool(extra)


def test_the_required_check_is_the_one_that_the_workflows_print() -> None:
    flows = workflow_runner.workflows()
    names = flows["gate.yml"]["jobs"]["gate"]["name"], flows["trusted.yml"]["jobs"]["required"]["name"]
    assert " / ".join(names) == protection.REQUIRED


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*", "a/b.py", True),
        ("/gates/", "gates/x/y.toml", True),
        ("/gates/", "other/gates/y.toml", False),
        ("gates/", "other/gates/y.toml", True),
        ("/docs/*", "docs/a/b.md", False),
        ("*.toml", "gates/hopper.toml", True),
        ("/.github/**/*.yml", ".github/workflows/gate.yml", True),
        ("/Makefile", "x/Makefile", False),
    ],
)
def test_patterns_match_as_github_says(pattern: str, path: str, matches: bool) -> None:
    assert bool(protection._pattern(pattern).fullmatch(path)) == matches
