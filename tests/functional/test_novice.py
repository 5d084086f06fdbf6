"""A new repository with the shortest suite, used from a folder below its top."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

SUBJECT = """
def build(root):
    return None


def problem(params):
    return {"flops": params["n"], "bytes": 8 * params["n"], "entries": []}


def inputs(params, seed):
    import torch

    return {"x": torch.randn(params["n"])}


def outputs(inputs):
    import torch

    return {"out": torch.empty_like(inputs["x"])}


def run(inputs, outputs):
    outputs["out"].copy_(inputs["x"])


def reference(inputs):
    return {"out": inputs["x"]}
"""
SUITE = '[[subject]]\nname = "copy"\n[[workload]]\nid = "copy-{n}"\neach = { n = [16, 64] }\n'
EASY = SUITE + '[[gate]]\nid = "finite"\n'
PROJECT = '[tool.flashcore-ci]\nsuite = "suites/hard.toml"\nsubjects = "kernels"\n'


def git(folder: Path, *arguments: str) -> None:
    named = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for file, text in (
        ("kernels/copy.py", SUBJECT),
        ("suites/hard.toml", SUITE),
        ("suites/easy.toml", EASY),
        ("pyproject.toml", PROJECT),
        ("sub/deep/x", ""),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_every_folder_plans_the_same(cli, repository: Path) -> None:
    top, below = (cli("plan", "--json", cwd=folder) for folder in (repository, repository / "sub/deep"))
    assert top.returncode == below.returncode == 0, below.stderr
    assert top.stdout == below.stdout
    defaults = dict(json.loads(top.stdout)["defaults"])
    assert defaults["protocol.repeats"] == "100"
    assert defaults["subject[0].file"] == '"kernels/copy.py"'


def test_the_bases_suite_rules(cli, repository: Path) -> None:
    (repository / "pyproject.toml").write_text(PROJECT.replace("hard", "easy"))
    git(repository, "commit", "-qam", "an easier suite")
    done = cli("bar", "HEAD~1", "--json", cwd=repository / "sub")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["exit_code"]) == (10, 10), done.stderr
    (change,) = (change for change in answer["changes"] if change["where"] == "default suite")
    assert "suites/easy.toml" in change["after"]
    # An easier suite under the old name blocks as well.
    (repository / "pyproject.toml").write_text(PROJECT)
    (repository / "suites/hard.toml").write_text(EASY)
    git(repository, "commit", "-qam", "an easier suite of the old name")
    assert cli("bar", "HEAD~2", cwd=repository).returncode == 10


def test_a_mistake_is_named_without_a_gpu_and_the_fix_keeps_the_suite(cli, repository: Path) -> None:
    (repository / "kernels/copy.py").write_text(SUBJECT.replace("def reference", "def refrence"))
    done = cli("gate", "--suite", "../suites/easy.toml", cwd=repository / "sub")
    assert done.returncode == 3
    assert "the function reference(inputs) is missing, did you mean refrence?" in done.stderr
    assert "flashcore-ci plan --suite ../suites/easy.toml" in done.stderr
