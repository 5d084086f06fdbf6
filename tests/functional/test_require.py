"""The one check that a repository requires: jobs that succeeded, and measurements of this very commit that are green."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from evidence_factories import make_device
from replayed import ROOT, environ
from repository import SUITE, Repository

from flashcore_ci.store.run import read_run, write_run

GREEN = json.dumps({"ci": {"result": "success", "outputs": {}}, "gpu": {"result": "success"}})


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("require") / "repository"
    return Repository(folder, {**environ(), "PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="module")
def measured(repository: Repository) -> Path:
    """The run folder of the GPU job; whoever alters it takes a copy."""
    return repository.measured(repository.folder.with_name("measured"))


def altered(measured: Path, tmp_path: Path, *, observations: tuple | None = None, **provenance: object) -> Path:
    """A run that says something else: whoever can write to a run folder can write any of it."""
    copy = Path(shutil.copytree(measured, tmp_path / "altered"))
    run = read_run(copy)
    evidence = replace(run.evidence, provenance=replace(run.evidence.provenance, **provenance))
    write_run(copy, run.plan, evidence if observations is None else replace(evidence, observations=observations))
    return copy


def required(repository: Repository, evidence: Path, needs: str = GREEN) -> tuple[int, str]:
    done = repository.tool("require", evidence, "--needs", needs, "--demand", "ci gpu")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_green_evidence_of_this_commit_passes(repository: Repository, measured: Path, tmp_path: Path) -> None:
    assert repository.tool("pack", measured, tmp_path / "evidence.tar.xz").returncode == 0
    status, said = required(repository, tmp_path / "evidence.tar.xz")
    assert status == 0, said
    report = json.loads((repository.folder / "runs/required/report.json").read_text())
    (found,) = [v for v in report["verdicts"] if v["gate"] == "max-diff"]
    assert (found["outcome"], found["origin"]["kind"]) == ("PASS", "live")
    assert "of this commit" in found["origin"]["detail"]
    assert report["judged_commit"] == repository.git("rev-parse", "HEAD")


def test_the_evidence_is_not_emptied_as_the_folder_of_reports(repository: Repository, measured: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(measured, tmp_path / "run"))
    (tmp_path / "link").symlink_to(copy)
    done = repository.tool("require", copy, "--out", tmp_path / "link")
    assert (done.returncode, "is what this command reads" in done.stderr) == (2, True), done.stderr
    assert read_run(copy) == read_run(measured)


@pytest.mark.parametrize("out", ["runs/h200", "runs"])
def test_a_machine_has_no_folder_in_the_evidence(repository: Repository, measured: Path, tmp_path: Path, out: str) -> None:
    copy = Path(shutil.copytree(measured, tmp_path / "runs/h200"))
    (copy / "report.json").touch()
    done = repository.tool("require", copy, "--machines", "h200", "--out", tmp_path / out)
    assert (done.returncode, "is what this command reads" in done.stderr) == (2, True), done.stderr
    assert {file.name for file in copy.iterdir()} == {*(file.name for file in measured.iterdir()), "report.json"}


def test_a_skipped_job_is_named_also_where_it_left_no_evidence(repository: Repository, tmp_path: Path) -> None:
    needs = json.dumps({"ci": {"result": "success"}, "gpu": {"result": "skipped"}})
    status, said = required(repository, tmp_path / "nothing.tar.xz", needs)
    assert status == 11
    assert "job gpu: skipped, and a skipped job is not a pass" in said
    assert "job ci" not in said
    assert not (repository.folder / "runs/required/report.json").exists()


def test_a_job_that_is_not_needed_any_more_is_named(repository: Repository, measured: Path) -> None:
    status, said = required(repository, measured, json.dumps({"ci": {"result": "success"}}))
    assert (status, "job gpu: demanded, and --needs has no such job" in said) == (11, True)
    assert repository.tool("require", measured, "--needs", GREEN).returncode == 2


def test_no_evidence_is_an_error(repository: Repository, tmp_path: Path) -> None:
    assert required(repository, tmp_path / "nothing.tar.xz")[0] == 4


def test_needs_that_are_none_are_a_usage_error(repository: Repository, measured: Path) -> None:
    assert required(repository, measured, "gpu")[0] == 2


def test_a_base_that_is_not_here_is_a_usage_error(repository: Repository, measured: Path) -> None:
    done = repository.tool("require", measured, "--base", "nowhere")
    assert (done.returncode, "fetch" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"device": make_device(name="NVIDIA A100-SXM4-80GB")}, "other-device"),
        ({"device": make_device(driver="535.104.05")}, "other-driver"),
        ({"tools": ()}, "no-tools"),
        ({"collected_at": "2020-01-01T00:00:00Z"}, "too-old"),
        ({"collected_at": "2999-01-01T00:00:00Z"}, "from-the-future"),
    ],
)
def test_evidence_that_the_suite_does_not_accept(
    repository: Repository, measured: Path, tmp_path: Path, changes: dict[str, object], code: str
) -> None:
    status, said = required(repository, altered(measured, tmp_path, **changes))
    assert (status, code in said) == (11, True), said


def test_a_suite_that_accepts_any_machine_is_refused(measured: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    repository = Repository(tmp_path / "repository", environment)
    text = (repository.folder / SUITE).read_text()
    (repository.folder / SUITE).write_text(text[: text.index("[accepts]")] + text[text.index("[protocol]") :])
    commit = repository.commit("accept anything")
    status, said = required(repository, altered(measured, tmp_path, commit=commit))
    assert (status, "has no [accepts]" in said) == (11, True)


def test_a_red_gate_is_red_again(repository: Repository, measured: Path, tmp_path: Path) -> None:
    (good,) = read_run(measured).evidence.observations
    readings = tuple((name, replace(reading, value=0.5)) for name, reading in good.readings)
    status, said = required(repository, altered(measured, tmp_path, observations=(replace(good, readings=readings),)))
    assert (status, "over-limit" in said) == (10, True)


def test_committed_evidence_does_not_answer_for_a_job_that_measured_nothing(
    repository: Repository, measured: Path, tmp_path: Path
) -> None:
    """What an author puts into gates/evidence is never asked here."""
    (repository.folder / "gates/evidence").mkdir()
    assert repository.tool("pack", measured, "gates/evidence/h200.tar.xz").returncode == 0
    status, said = required(repository, measured)
    assert (status, "gates/evidence/h200.tar.xz is not in the commit" in said) == (11, True)
    commit = repository.commit("evidence")
    status, said = required(repository, altered(measured, tmp_path, observations=(), commit=commit))
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    assert (status, "no-evidence" in said) == (11, True)


def test_a_forged_commit_does_not_help_other_code(measured: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """Measurements of the kernel before, said to be of the commit now: the digests of the build here say otherwise."""
    repository = Repository(tmp_path / "repository", environment)
    repository.edit("kernel/twice.cu", "2.0f * x[i]", "2.0f * x[i] + 1.0f")
    assert required(repository, measured)[0] == 11  # not committed
    commit = repository.commit("a wrong kernel")
    status, said = required(repository, measured)
    assert (status, f"this checkout is at {commit[:12]}" in said) == (11, True)
    status, said = required(repository, altered(measured, tmp_path, commit=commit))
    assert (status, "stale-evidence" in said) == (11, True)


def test_each_machine_class_has_a_verdict_of_its_own(repository: Repository, measured: Path, tmp_path: Path) -> None:
    suite = repository.folder / "gates/hopper.toml"
    name = read_run(measured).evidence.provenance.device.name
    other = altered(measured, tmp_path, device=make_device(name="NVIDIA H100 NVL"))
    ours = name.split()[-1].lower()
    done = repository.tool("require", measured, other, "--suite", suite, "--machines", f"{ours},h100-nvl")
    assert "Traceback" not in done.stderr
    assert done.returncode == 11, done.stderr
    outcomes = [
        json.loads((repository.folder / f"runs/required/{of}/report.json").read_text())["outcome"] for of in (ours, "h100-nvl")
    ]
    assert outcomes == ["PASS", "INCONCLUSIVE"]
    refused = repository.tool("require", measured, "--suite", suite, "--machines", f"{ours},h100")
    assert (refused.returncode, "0 evidences are of h100" in refused.stderr) == (11, True), refused.stderr
    assert repository.tool("require", measured, "--suite", suite, "--machines", ours).returncode == 0
