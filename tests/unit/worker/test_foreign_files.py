"""The measured checkout is imported, and not another copy of the repository."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from flashcore_ci.worker import file_reads, foreign_files
from flashcore_ci.worker.job import Job


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job that measures the base of ``tmp_path/repository``."""
    for name in ("repository/src", "base/src"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder, root = tmp_path / "repository/runs/logs/000-timing", tmp_path / "base"
    return Job(
        kind="timing", nonce="", digest="", root=root, folder=folder, subjects=(), workloads=(), options={},
        repository=tmp_path / "repository",
    )  # fmt: skip


def loaded(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    module = ModuleType("loaded_by_a_test")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_an_installed_folder_of_head_becomes_the_bases(base: Job) -> None:
    sys.path.append(str(base.repository / "src"))
    foreign_files.redirect(base)
    assert sys.path[-1] == str(base.root / "src")


def test_the_finder_of_an_installed_folder_becomes_the_bases(base: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = ModuleType("__editable___kernels_finder")
    finder.MAPPING = {"kernels": str(base.repository / "src/kernels"), "other": "/elsewhere/other"}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    foreign_files.redirect(base)
    assert {"kernels": str(base.root / "src/kernels"), "other": "/elsewhere/other"} == finder.MAPPING  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["/elsewhere", "", "relative", "repository/.venv/lib/site-packages", "repository/runs/logs/import"]
)
def test_other_folders_stay(base: Job, name: str) -> None:
    folder = str(base.root.parent / name) if name.startswith("repository") else name
    sys.path.append(folder)
    foreign_files.redirect(base)
    assert sys.path[-1] == folder


@pytest.mark.parametrize(
    "name", ["base/src/a.py", "elsewhere/a.py", "repository/.venv/lib/site-packages/a.py", "repository/runs/logs/x/a.py"]
)
def test_files_of_the_checkout_and_of_libraries_are_imported(base: Job, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    loaded(monkeypatch, base.root.parent / name)
    assert foreign_files.find(base) == ""


def test_a_file_of_head_is_named(base: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch, base.repository / "src/a.py")
    assert foreign_files.find(base) == str(base.repository / "src/a.py")


def test_what_the_gate_reads_is_not_what_the_subject_reads(base: Job) -> None:
    (base.root / "pyproject.toml").write_text('[project]\nname = "kernels"\n')
    file_reads.watch(base.root)
    try:
        foreign_files.find(base)
        assert base.root / "pyproject.toml" not in file_reads.undeclared(set(), set())
    finally:
        file_reads._watched.clear()


def test_head_in_place_imports_itself(base: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch, base.repository / "src/a.py")
    assert foreign_files.find(replace(base, root=base.repository)) == ""


@pytest.mark.parametrize(("text", "is_found"), [("SIZE = 1\n", False), ("SIZE = 2\n", True)])
def test_an_installed_file_may_take_the_place_of_an_equal_one(
    base: Job, monkeypatch: pytest.MonkeyPatch, text: str, is_found: bool
) -> None:
    declared, installed = base.root / "kernel/mine/sizes.py", base.root.parent / "site/mine/sizes.py"
    for file, content in ((declared, "SIZE = 1\n"), (installed, text)):
        file.parent.mkdir(parents=True)
        file.write_text(content)
    module = ModuleType("mine.sizes")
    module.__file__ = str(installed)
    monkeypatch.setitem(sys.modules, "mine.sizes", module)
    job = replace(base, options={"python": ["kernel/mine/sizes.py"]})
    expected = (str(installed), "kernel/mine/sizes.py") if is_found else None
    assert foreign_files.find_replaced(job, {str(installed)}) == expected
    assert foreign_files.find_replaced(job, set()) is None


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("kernel/mine/sizes.py", ["mine.sizes", "kernel.mine.sizes"]),
        ("kernel/mine/__init__.py", ["mine", "kernel.mine"]),
        ("json/__init__.py", []),
        ("random.py", []),
    ],
)
def test_modules_of_a_package_have_several_names(file: str, names: list[str]) -> None:
    assert list(foreign_files._module_names(file)) == names
