"""``gate --changed``: what a branch can have affected, by digest, against the commit where it left its base."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from replayed import valid
from repository import Repository


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One path for all, so that nothing is compiled twice."""
    return tmp_path_factory.mktemp("changed") / "repository"


@pytest.fixture
def repository(place: Path, environment: dict[str, str]) -> Repository:
    shutil.rmtree(place, ignore_errors=True)
    repository = Repository(place, environment)
    repository.git("switch", "--quiet", "--create", "topic")
    return repository


def changed(repository: Repository, *arguments: str) -> tuple[int, str, set[str]]:
    """Exit code, headline, and the gates that were asked of anything that runs."""
    done = repository.tool("gate", "--recorded", "--changed=main", *arguments)
    assert "Traceback" not in done.stderr
    out = repository.folder / "runs/latest"
    valid(out)
    report = json.loads((out / "report.json").read_text())
    return done.returncode, report["headline"], {v["gate"] for v in report["verdicts"] if v["scope"] == "workload"}


def test_a_comment_affects_nothing_and_the_green_says_so(repository: Repository) -> None:
    repository.edit("kernel/twice.cu", "  if (i < n)", "  // why\n  if (i < n)")
    status, headline, asked = changed(repository)
    assert (status, asked) == (0, set())
    assert "--changed: none of the checks that run kernels can differ from main (" in headline
    assert "1 check left out: max-diff 1" in headline
    excluded = json.loads((repository.folder / "runs/latest/report.json").read_text())["excluded"]
    assert [(e["gate"], e["target"]) for e in excluded if "it has the digests" in e["why"]] == [("max-diff", "twice-n4096")]


def test_an_instruction_is_asked_about_and_blocks_without_evidence(repository: Repository) -> None:
    repository.edit("kernel/twice.cu", "2.0f * x[i]", "2.0f * x[i] + 1.0f")
    repository.commit("faster")
    status, headline, asked = changed(repository)
    assert (status, asked) == (11, {"max-diff"})
    assert "--changed: 1 of the checks that run kernels can differ from main (" in headline


def test_a_limit_is_asked_about_too(repository: Repository) -> None:
    repository.edit("gates/hopper.toml", "1e-6", "1e-3")
    assert changed(repository)[2] == {"max-diff"}


def test_the_base_is_where_the_branch_left_it(repository: Repository) -> None:
    repository.git("switch", "--quiet", "main")
    repository.edit("kernel/twice.cu", "2.0f * x[i]", "2.0f * x[i] + 1.0f")
    repository.commit("somebody else's work")
    repository.git("switch", "--quiet", "topic")
    assert changed(repository)[2] == set()


@pytest.mark.parametrize("damage", ["suite", "kernel"])
def test_a_base_that_cannot_be_judged_leaves_nothing_out(repository: Repository, damage: str) -> None:
    good = (repository.folder / "gates/hopper.toml").read_text()
    repository.git("switch", "--quiet", "main")
    if damage == "suite":
        (repository.folder / "gates/hopper.toml").write_text("nonsense = [")
    else:
        repository.edit("kernel/twice.cu", "2.0f", "two")
    repository.commit("broken")
    repository.git("switch", "--quiet", "--create", "later")
    (repository.folder / "gates/hopper.toml").write_text(good)
    if damage == "kernel":
        repository.edit("kernel/twice.cu", "two", "2.0f")
    status, headline, asked = changed(repository)
    assert (status, asked) == (11, {"max-diff"})
    assert ("every check is judged" in headline) == (damage == "suite")


def test_a_base_that_is_not_here(repository: Repository) -> None:
    done = repository.tool("gate", "--recorded", "--changed=nowhere")
    assert done.returncode == 2
    assert "fetch" in done.stderr
    assert json.loads((repository.folder / "runs/latest/report.json").read_text())["exit_code"] == 2
