"""The gate's workflow as the protected branch has it, job by job as GitHub would, against what a pull request could do."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import workflow_runner
from comment_server import Comments
from jobs import GitHub
from repository import GREEN, RED, Repository

Finished = Callable[[Path, Comments], GitHub]


def nightly(name: str) -> list[dict[str, Any]]:
    return workflow_runner.workflows()["nightly.yml"]["jobs"][name]["steps"]


def test_a_green_change_may_merge_and_every_line_was_executed(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments
) -> None:
    github = GitHub(repository, tmp_path, comments, gpu=runs[GREEN])
    results = github.gate()
    assert set(results.values()) == {"success"}, (results, {name: runner.log for name, runner in github.runners.items()})
    assert (len(github.signed), github.uploaded) == (2, ["judged/results.sarif"])
    (comment,) = comments.comments
    assert "**Check `required`: success, attempt 1 of this commit.**" in comment["body"]
    assert "PASS" in comment["body"]
    ran = {line for runner in github.runners.values() for line in runner.ran}
    here = {step["run"] for _, step in workflow_runner.steps() if "run" in step}
    elsewhere = {line for line in here if line.startswith("make ")}  # .ci/run makes them
    elsewhere |= {"python3 .github/checks/check_pins.py"}  # test_pins.py
    elsewhere |= {line for line in here if line.startswith("sudo apt-get ")}  # packages of a nightly test
    elsewhere |= {step["run"] for name in ("runner", "calibrate", "selftest") for step in nightly(name) if "run" in step}  # below
    elsewhere |= {line for line in here if line.endswith((" needs-gpu", " answered"))}  # below
    elsewhere |= {line for line in here if line.endswith((" history", " dashboard", '/history.py"'))}  # test_github.py
    elsewhere |= {".venv/bin/python tools/study/fuzz.py --count 100000"}  # test_readers.py, with a smaller count
    assert here - elsewhere <= ran


def test_a_red_change_may_not_and_its_report_is_signed_too(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments
) -> None:
    github = GitHub(repository, tmp_path, comments, gpu=runs[RED])
    results = github.gate()
    assert (results["gpu"], results["attest"], results["required"]) == ("failure", "success", "failure")
    assert "job gpu: failure" in github.runners["required"].log
    (comment,) = comments.comments
    assert "`required`: failure" in comment["body"]
    assert "FAIL" in comment["body"]


@pytest.mark.parametrize("job", ["gpu", "attest", "ci"])
def test_a_skipped_job_is_no_pass(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments, job: str
) -> None:
    github = GitHub(repository, tmp_path, comments, gpu=runs[GREEN])
    assert github.gate(skip=job)["required"] == "failure"
    log = github.runners["required"].log
    assert f"job {job}: skipped, and a skipped job is not a pass" in log or "statement.json is not a plain file" in log


def again(github: GitHub, name: str = "required") -> str:
    """Run one job again, after the others."""
    job = workflow_runner.workflows()["trusted.yml"]["jobs"][name]
    needs = [job["needs"]] if isinstance(job["needs"], str) else job["needs"]
    shutil.rmtree(github.folder / f"{name}-temp", ignore_errors=True)
    return github.job(name, job, github.context(needs) | {"ok": True})


@pytest.fixture(scope="module")
def finished(
    repository: Repository, runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path, Comments], GitHub]:
    """A green run of the whole gate, to be attacked afterwards."""
    done: list[GitHub] = []

    def attack(folder: Path, api: Comments) -> GitHub:
        if not done:
            done.append(GitHub(repository, tmp_path_factory.mktemp("finished"), api, gpu=runs[GREEN]))
            assert set(done[0].gate().values()) == {"success"}
        github = GitHub(repository, Path(shutil.copytree(done[0].folder, folder / "run")), api, gpu=runs[GREEN])
        github.results, github.outputs = dict(done[0].results), {name: dict(o) for name, o in done[0].outputs.items()}
        github.artifacts = {number: github.folder / "artifacts" / number for number in done[0].artifacts}
        github.names, github.signed = dict(done[0].names), copy.deepcopy(done[0].signed)
        return github

    return attack


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subjectAlternativeName", "https://github.com/flashcore/flashcore-ci/.github/workflows/gate.yml@refs/pull/7/merge"),
        ("runInvocationURI", "https://github.com/flashcore/flashcore-ci/actions/runs/2/attempts/1"),
    ],
)
def test_a_signature_of_another_workflow_or_run_does_not_count(
    finished: Finished, tmp_path: Path, comments: Comments, field: str, value: str
) -> None:
    """tests/attacks has every other field."""
    github = finished(tmp_path, comments)
    for result in [result for results in github.signed.values() for result in results]:
        result["signature"]["certificate"][field] = value
    for name in ("required", "comment", "alerts"):
        assert again(github, name) == "failure"
        assert not any(step in github.runners[name].ran for step in ("$/.github/actions/require", "$/.github/actions/judge"))


def test_evidence_that_nobody_signed_is_refused(finished: Finished, tmp_path: Path, comments: Comments) -> None:
    github = finished(tmp_path, comments)
    github.signed = {}
    assert again(github) == "failure"
    assert "the signature does not count" in github.runners["required"].log


def test_an_artifact_that_another_job_replaced_is_not_found(finished: Finished, tmp_path: Path, comments: Comments) -> None:
    """Any job of the run can upload `evidence` again. Its id is another."""
    github = finished(tmp_path, comments)
    github.replace_artifact("evidence", github.artifacts[github.outputs["gpu"]["evidence"]] / "gpu.tar.xz")
    for name in ("attest", "required", "comment", "alerts"):
        assert again(github, name) == "failure", name


def test_a_statement_of_another_run_is_refused(finished: Finished, tmp_path: Path, comments: Comments) -> None:
    github = finished(tmp_path, comments)
    file = github.artifacts[github.outputs["attest"]["statement"]] / "statement.json"
    file.write_text(file.read_text().replace("/actions/runs/1", "/actions/runs/2"))
    assert again(github) == "failure"


def test_running_until_it_is_green_ends(finished: Finished, tmp_path: Path, comments: Comments) -> None:
    github = finished(tmp_path, comments)
    comments.runs[0]["run_attempt"] = github.attempt = 6
    assert again(github) == "failure"
    assert "attempt 6 of this commit's files, in 1 run (at most 5)" in github.runners["required"].log


def test_the_actions_of_the_change_decide_nothing(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments
) -> None:
    before = repository.git("rev-parse", "HEAD")
    for name in ("require", "verify", "attempts", "judge", "statement", "gate"):
        action = repository.folder / f".github/actions/{name}/action.yml"
        action.write_text(action.read_text().split("runs:")[0] + "runs:\n  using: composite\n  steps: []\n")
    repository.commit("every action of the change does nothing")
    github = GitHub(repository, tmp_path, comments, gpu=runs[RED])
    results = github.gate()
    repository.git("reset", "--quiet", "--hard", before)
    assert (results["gpu"], results["required"]) == ("failure", "failure")


def test_a_fork_runs_without_rights_and_the_queue_signs_for_it(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments
) -> None:
    (tmp_path / "fork").mkdir()
    fork = GitHub(repository, tmp_path / "fork", comments, gpu=runs[GREEN], fork=True)
    results = fork.gate()
    assert (results["gpu"], results["comment"], results["alerts"]) == ("success", "skipped", "skipped")
    assert (results["required"], fork.signed) == ("success", {})
    (tmp_path / "queue").mkdir()
    queue = GitHub(repository, tmp_path / "queue", comments, gpu=runs[GREEN], fork=True).merge_queue()
    assert queue.gate()["required"] == "success"
    assert len(queue.signed) == 2


def test_documentation_merges_by_the_queues_measurement_without_a_gpu(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments
) -> None:
    (tmp_path / "queue").mkdir()
    queue = GitHub(repository, tmp_path / "queue", comments, gpu=runs[GREEN]).merge_queue()
    comments.runs[0] |= {"event": "merge_group"}
    assert queue.gate()["required"] == "success"
    before = repository.git("rev-parse", "HEAD")
    (repository.folder / "README.md").write_text("# text\n")
    commit = repository.commit("docs: a page")
    comments.put_run(2, commit)
    for file, skipped in (("README.md", True), ("kernel/data.json", False)):
        (repository.folder / file).write_text("another text\n")
        repository.commit("a change")
        (tmp_path / file.replace("/", "-")).mkdir()
        change = GitHub(repository, tmp_path / file.replace("/", "-"), comments, gpu=runs[GREEN])
        comments.put_run(3 + skipped, change.commit)
        change.github |= {"run_id": str(3 + skipped)}
        change.github["event"]["pull_request"]["base"]["sha"] = before
        change.artifacts, change.signed = dict(queue.artifacts), copy.deepcopy(queue.signed)
        results = change.gate()
        log = change.runners["required"].log
        if skipped:
            assert (results["gpu"], results["attest"], results["required"]) == ("skipped", "skipped", "success"), log
            assert "no GPU job is needed" in log
            ran = {line for runner in change.runners.values() for line in runner.ran}
            assert all(any(line.endswith(end) for line in ran) for end in (" needs-gpu", " answered"))
            assert before[:12] in change.runners["required"].summary
        else:  # the replayed run is of another commit
            assert (results["decide"], results["gpu"] != "skipped", results["required"]) == ("success", True, "failure"), log
    repository.git("reset", "--quiet", "--hard", before)


@pytest.mark.parametrize(
    "event",
    [
        {"event_name": "push", "event": {}},
        {"event_name": "workflow_dispatch", "event": {}},
        {"event_name": "merge_group", "event": {"merge_group": {"base_ref": "refs/heads/evil"}}},
    ],
)
def test_another_event_or_branch_is_not_gated(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments, event: dict[str, Any]
) -> None:
    github = GitHub(repository, tmp_path, comments, gpu=runs[GREEN])
    github.github |= event
    results = github.gate()
    assert (results["gpu"], results["attest"], results["required"]) == ("skipped", "skipped", "failure")


def test_a_pull_request_into_another_branch_is_red(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments
) -> None:
    """Its author chose the bar there, and could aim it at `main` once it is green."""
    github = GitHub(repository, tmp_path, comments, gpu=runs[GREEN])
    github.github["event"]["pull_request"]["base"]["ref"] = "easy"
    assert github.gate()["required"] == "failure"


def test_evidence_of_another_commit_is_refused(
    repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments
) -> None:
    before = repository.git("rev-parse", "HEAD")
    repository.commit("another commit")
    github = GitHub(repository, tmp_path, comments, gpu=runs[GREEN])
    results = github.gate()
    repository.git("reset", "--quiet", "--hard", before)
    assert (results["attest"], results["required"], github.signed) == ("failure", "failure", {})
    assert f"the evidence is of {before[:12]}" in github.runners["attest"].log
