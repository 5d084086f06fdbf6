"""The in-toto statement on the command line: written, checked, and demanded by the required check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from replayed import ROOT, environ
from repository import Repository


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("statement") / "repository", {**environ(), "PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="module")
def evidence(repository: Repository) -> Path:
    return repository.packed(repository.folder.with_name("gpu.tar.xz"))


def on_github(repository: Repository, **changes: str) -> Repository:
    """The same repository in a job on GitHub."""
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "flashcore/flashcore-ci", "GITHUB_RUN_ID": "7", **changes}
    job = object.__new__(Repository)
    job.folder, job.environment = repository.folder, {**repository.environment, **variables}
    return job


def test_a_statement_is_written_once_and_checked_anywhere(repository: Repository, evidence: Path, tmp_path: Path) -> None:
    file = tmp_path / "statement.json"
    assert repository.tool("statement", evidence, file, "--predicate", tmp_path / "predicate.json").returncode == 0
    content = json.loads(file.read_bytes())
    assert {"name": "commit", "digest": {"gitCommit": repository.git("rev-parse", "HEAD")}} in content["subject"]
    assert json.loads((tmp_path / "predicate.json").read_bytes()) == content["predicate"]
    assert repository.tool("statement", evidence, file).returncode == 0  # the same bytes again
    assert repository.tool("statement", evidence, file, "--check").returncode == 0
    assert repository.tool("statement", evidence.with_suffix("").with_suffix(".tar.run"), file, "--check").returncode == 0


def test_a_statement_of_something_else_is_one_line_and_exit_code_11(
    repository: Repository, evidence: Path, tmp_path: Path
) -> None:
    file = tmp_path / "statement.json"
    repository.tool("statement", evidence, file)
    file.write_text(file.read_text().replace('"gitCommit": "', '"gitCommit": "0'))
    for command in (("statement", evidence, file, "--check"), ("require", evidence, "--statement", file)):
        done = repository.tool(*command)
        assert done.returncode == 11, command
        assert "the statement's subject is not that of the evidence" in done.stderr
        assert "fix: run the GPU job" in done.stderr
        assert "Traceback" not in done.stderr


def test_require_takes_the_right_one(repository: Repository, evidence: Path, tmp_path: Path) -> None:
    repository.tool("statement", evidence, tmp_path / "statement.json")
    assert repository.tool("require", evidence, "--statement", tmp_path / "statement.json").returncode == 0


def test_on_github_it_is_of_the_commit_and_the_run(repository: Repository, evidence: Path, tmp_path: Path) -> None:
    here = repository.git("rev-parse", "HEAD")
    job, other = on_github(repository, GITHUB_SHA=here), on_github(repository, GITHUB_SHA="f" * 40)
    done = other.tool("statement", evidence, tmp_path / "other.json")
    assert (done.returncode, f"the evidence is of {here[:12]}, and this job is for ffffffffffff" in done.stderr) == (11, True)
    assert job.tool("statement", evidence, tmp_path / "statement.json").returncode == 0
    assert "actions/runs/7" in (tmp_path / "statement.json").read_text()
    later = on_github(repository, GITHUB_SHA=here, GITHUB_RUN_ID="8")
    assert later.tool("require", evidence, "--statement", tmp_path / "statement.json").returncode == 11
    assert repository.tool("statement", evidence, tmp_path / "statement.json", "--check").returncode == 0


def test_nothing_else_is_overwritten_and_bad_input_is_one_line(repository: Repository, evidence: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("mine")
    assert repository.tool("statement", evidence, tmp_path / "mine.json").returncode == 2
    assert (tmp_path / "mine.json").read_text() == "mine"
    assert repository.tool("statement", tmp_path / "absent.tar.xz", tmp_path / "x.json").returncode == 4
    assert repository.tool("statement", evidence, tmp_path / "absent.json", "--check").returncode == 4
    assert repository.tool("statement", evidence, tmp_path / "x.json", "--check", "--predicate", "y").returncode == 2
