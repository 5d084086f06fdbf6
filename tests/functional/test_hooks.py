"""The hooks for pre-commit: each entry's command line, run in a repository as pre-commit would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from replayed import ROOT
from repository import Repository

from flashcore_ci.run.host import has_gpu

HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One path for all, so that nothing is compiled twice."""
    return tmp_path_factory.mktemp("hooks") / "repository"


@pytest.fixture
def repository(place: Path, environment: dict[str, str]) -> Repository:
    shutil.rmtree(place, ignore_errors=True)
    return Repository(place, environment)


def run(repository: Repository, hook: str) -> int:
    program, *arguments = HOOKS[hook]["entry"].split()
    assert program == "flashcore-ci"
    done = repository.tool(*arguments)
    assert "Traceback" not in done.stderr
    assert repository.git("status", "--porcelain") == ""  # pre-commit takes a changed file for a failure
    return done.returncode


def test_static_gates_pass_without_evidence_and_fail_for_a_kernel_that_does_not_compile(repository: Repository) -> None:
    assert run(repository, "flashcore-ci-static") == 0
    repository.edit("kernel/twice.cu", "2.0f", "two")
    repository.commit("broken")
    assert run(repository, "flashcore-ci-static") == 10


def test_evidence_must_be_of_this_code(repository: Repository, tmp_path: Path) -> None:
    assert run(repository, "flashcore-ci-evidence") == 11
    (repository.folder / "gates/evidence").mkdir()
    assert repository.tool("pack", repository.measured(tmp_path / "run"), "gates/evidence/h200.tar.xz").returncode == 0
    repository.commit("evidence")
    assert run(repository, "flashcore-ci-evidence") == 0


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
def test_without_a_gpu_what_changed_cannot_be_measured(repository: Repository) -> None:
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert run(repository, "flashcore-ci-changed") == 4


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
def test_a_hook_runs_once_and_takes_no_file_names(hook: dict[str, object]) -> None:
    assert (hook["language"], hook["pass_filenames"], hook["require_serial"]) == ("python", False, True)
