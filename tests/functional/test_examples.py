"""Each folder of ``examples/`` is a repository that works as its README says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from flashcore_ci.cli.main import COMMANDS

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
SCREEN = 40


def suite_of(folder: Path) -> Path:
    (suite,) = folder.glob("gates/*.toml")
    return suite.relative_to(folder)


def test_there_are_five() -> None:
    assert NAMES == ["cublas", "cuda", "tilelang", "torch-compile", "triton"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_complete_and_its_readme_fits_on_a_screen(name: str) -> None:
    folder = EXAMPLES / name
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= SCREEN
    assert f"--suite {suite_of(folder)}" in text
    assert set(re.findall(r"flashcore-ci (\w+)", text)) <= set(COMMANDS)
    assert all((folder / file).is_file() for file in re.findall(r"([\w/]+\.(?:py|cu|toml))\b", text))
    assert (folder / ".gitignore").read_text() == "/runs/\n"
    assert f"--suite {suite_of(folder)}" in (folder / ".github/workflows/kernel-gate.yml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_its_plan_names_work_outputs_and_tolerance(cli, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = cli("plan", "--suite", suite_of(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"e\+\d+ FLOP, .* byte, outputs out0 float\d+\[\d+, \d+\], tolerance error/ratio at most 1", done.stdout)


@pytest.mark.nightly
def test_the_cuda_example_compiles(cli, tmp_path: Path) -> None:
    folder = tmp_path / "cuda"
    shutil.copytree(EXAMPLES / "cuda", folder)
    done = cli("build", "--suite", suite_of(folder), "--out", tmp_path / "built", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "0 byte spilled" in done.stdout
