"""What is in the way of an output is left alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flashcore_ci.run import host


def gate(cli, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return cli("gate", "--suite", "suite.toml", "--recorded", *arguments, **variables)


def test_an_out_folder_with_other_things_is_left_alone(cli, checkout: Path) -> None:
    (checkout / "mine").mkdir()
    (checkout / "mine/thesis.txt").write_text("years")
    assert gate(cli, "--out", "mine").returncode == 2
    assert (checkout / "mine/thesis.txt").read_text() == "years"


@pytest.mark.parametrize("name", ["report.json", "junit.xml", "summary.md", "comment.md"])
def test_a_report_of_somebody_else_is_left_alone(cli, checkout: Path, name: str) -> None:
    (checkout / "mine").mkdir()
    (checkout / "mine" / name).write_text("years")
    done = gate(cli, "--out", "mine")
    assert done.returncode == 2
    assert f"flashcore-ci did not write {name}" in done.stderr
    assert {path.name: path.read_text() for path in (checkout / "mine").iterdir()} == {name: "years"}


def test_a_mistyped_suite_keeps_the_last_report(cli, checkout: Path) -> None:
    gate(cli)
    before = {path.name: path.read_bytes() for path in (checkout / "runs/latest").iterdir() if path.is_file()}
    done = cli("gate", "--suite", "suit.toml")
    assert done.returncode == 3
    assert "suit.toml" in done.stderr
    assert {path.name: path.read_bytes() for path in (checkout / "runs/latest").iterdir() if path.is_file()} == before


@pytest.mark.skipif(host.has_gpu(), reason="this machine has a GPU")
def test_a_gate_without_a_gpu_leaves_the_evidence_of_an_earlier_run(cli, checkout: Path) -> None:
    gate(cli)
    (checkout / "runs/latest/evidence.json").write_text("measured")
    assert cli("gate", "--suite", "suite.toml", "--live").returncode == 4
    assert (checkout / "runs/latest/evidence.json").read_text() == "measured"


@pytest.mark.parametrize("name", ["gates/evidnce", "suite.toml"])
def test_recorded_runs_that_are_not_there_are_refused(cli, checkout: Path, name: str) -> None:
    done = gate(cli, "--stale", "defer", "--evidence", name)
    assert (done.returncode, f"{name} is not a folder" in done.stderr) == (2, True)


def test_pack_does_not_replace_a_file(cli, checkout: Path) -> None:
    gate(cli)
    (checkout / "thesis.tar.xz").write_text("years")
    done = cli("pack", "runs/latest", "thesis.tar.xz")
    assert done.returncode in {2, 4}
    assert (checkout / "thesis.tar.xz").read_text() == "years"


@pytest.mark.parametrize("name", ["build.json", "twice/libtwice.so"])
def test_build_does_not_replace_a_file(cli, checkout: Path, name: str) -> None:
    (checkout / "build" / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / "build" / name).write_text("years")
    done = cli("build", "--suite", "suite.toml")
    assert done.returncode == 2
    assert (checkout / "build" / name).read_text() == "years"
