"""A unit test is named after its module: ``tests/unit/ROOM/test_MODULE.py`` or ``test_MODULE_aspect.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests/unit"
TESTS = sorted(path.relative_to(UNIT) for path in UNIT.rglob("test_*.py"))


def folders_of(test: Path) -> list[Path]:
    """The folders that may hold the module: a room of the package, every folder of the tools, or the checks of CI."""
    if test.parts[0] == "tools":
        return [path for path in (ROOT / "tools").rglob("*") if path.is_dir()] + [ROOT / "tools"]
    if test.parts[0] == "checks":
        return [ROOT / ".github/checks"]
    return [ROOT / "flashcore_ci" / test.parent]


def module_of(test: Path, folders: list[Path]) -> str:
    """The longest beginning of the test's name that is a module or a package; empty when there is none."""
    words = test.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return next(
        (name for name in names if any((room / f"{name}.py").is_file() or (room / name).is_dir() for room in folders)), ""
    )


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_a_unit_test_bears_the_name_of_its_module(test: Path) -> None:
    assert module_of(test, folders_of(test)), f"there is no module for {test}"


def test_the_rule_can_fail(tmp_path: Path) -> None:
    (tmp_path / "no_slower.py").touch()
    assert module_of(Path("judge/test_no_slower.py"), [tmp_path]) == "no_slower"
    assert module_of(Path("judge/test_no_slower_clock.py"), [tmp_path]) == "no_slower"
    assert module_of(Path("judge/test_slower.py"), [tmp_path]) == ""
