"""``baseline propose`` writes a file for a review, and nothing else changes one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from replayed import ROOT

BUNDLE = ROOT / "gates/evidence/nvidia-h200-hopper.tar.xz"


@pytest.fixture
def gates(checkout: Path) -> Path:
    (checkout / "gates").mkdir()
    (checkout / "gates/tiny.toml").touch()
    return checkout / "gates"


def propose(cli, run: Path):
    return cli("baseline", "propose", run, "--suite", "gates/tiny.toml")


def test_it_writes_what_the_run_timed(cli, gates: Path) -> None:
    done = propose(cli, BUNDLE)
    assert done.returncode == 0, done.stderr
    (file,) = (gates / "baselines").iterdir()
    assert file.name == "nvidia-h200-580.159.04-not-locked.json"
    rows = json.loads(file.read_text())["rows"]
    assert len(rows) == len(done.stdout.splitlines()) >= 17
    assert all(line.endswith("(new)") for line in done.stdout.splitlines())
    assert "review the changes above and commit it" in done.stderr


def test_a_second_proposal_says_what_moved_and_keeps_what_was_not_timed(cli, gates: Path) -> None:
    propose(cli, BUNDLE)
    (file,) = (gates / "baselines").iterdir()
    before = json.loads(file.read_text())
    before["rows"][0]["ms"] = [2 * value for value in before["rows"][0]["ms"]]
    before["rows"].append({**before["rows"][1], "workload": "elsewhere"})
    file.write_text(json.dumps(before))
    done = propose(cli, BUNDLE)
    (line,) = done.stdout.splitlines()
    assert "-50.00 % in time, +0.00 % in cycles since" in line
    assert [row["workload"] for row in json.loads(file.read_text())["rows"]].count("elsewhere") == 1


def test_a_run_that_timed_nothing_proposes_nothing(cli, gates: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tests/functional/checkout", tmp_path / "other")
    done = propose(cli, tmp_path / "other")
    assert done.returncode == 4
    assert not (gates / "baselines").exists()


@pytest.mark.parametrize("text", ["", "{", '{"schema": "baseline-v1"}', "[]"])
def test_a_broken_baseline_is_an_error_and_not_a_missing_one(cli, gates: Path, text: str) -> None:
    (gates / "baselines").mkdir(parents=True)
    (gates / "baselines/broken.json").write_text(text)
    done = propose(cli, BUNDLE)
    assert done.returncode == 4
    assert "broken.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_baselines_of_one_machine_are_an_error(cli, gates: Path) -> None:
    propose(cli, BUNDLE)
    (file,) = (gates / "baselines").iterdir()
    shutil.copy(file, file.with_name("again.json"))
    done = propose(cli, BUNDLE)
    assert done.returncode == 4
    assert "are for the same machine" in done.stderr


def test_a_mistyped_suite_gets_no_baseline(cli, gates: Path) -> None:
    done = cli("baseline", "propose", BUNDLE, "--suite", "gate/tiny.toml")
    assert (done.returncode, (gates.parent / "gate").exists()) == (3, False), done.stderr
