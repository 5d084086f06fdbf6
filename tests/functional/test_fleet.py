"""One suite on several GPUs: the real command line on a machine whose fake driver shows two."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tool_server
from replayed import COMMAND, SUITE, Machine, of, only

from flashcore_ci.run import aside
from flashcore_ci.store.claim import MARKER
from flashcore_ci.store.run import read_run

GATES = ("finite", "stability")
FIXED = ("--suite", SUITE, "--build", "build", "--toolchain", "system")


@pytest.fixture
def two(machine: Machine) -> Machine:
    """The recorded machine with a second GPU of the same kind. Processes that fail as a whole stay out."""
    machine.environment |= {"FAKE_GPUS": "2", "FLASHCORE_CI_HOME": str(machine.folder / "home")}
    for process in machine.content["processes"]:
        process["exit_status"] = 0
    return machine


def evidence(machine: Machine, run: str = "run") -> Any:
    return read_run(machine.folder / run).evidence


def command(machine: Machine, *arguments: str | Path, tool: Sequence[str] = COMMAND) -> subprocess.CompletedProcess[str]:
    (machine.recording / "recording.json").write_text(json.dumps(machine.content), encoding="utf-8")
    argv = [*tool, *map(str, arguments)]
    if tool is COMMAND:
        return tool_server.run(argv[len(tool) :], cwd=machine.checkout, env=machine.environment, timeout=120)
    return subprocess.run(
        argv, cwd=machine.checkout, env=machine.environment, text=True, capture_output=True, check=False, timeout=120
    )


def test_a_gate_without_gpu_uses_every_gpu(two: Machine) -> None:
    done = two.gate(*only("stability"))
    assert "measuring 2 shards" in done.stderr
    assert two.verdicts() == of(two.recorded, "stability")
    found = evidence(two)
    first = two.content["device"]["uuid"]
    assert {attempt.gpu for attempt in found.attempts} == {first, f"{first}-1"}
    assert found.shard is None
    assert found.provenance.device.uuid == f"{first},{first}-1"


def test_a_gate_uses_the_gpu_that_the_user_leaves_visible(two: Machine) -> None:
    two.environment["CUDA_VISIBLE_DEVICES"] = "1"
    done = two.gate(*only("stability"))
    assert "shards" not in done.stderr
    assert evidence(two).attempts == ()
    assert evidence(two).provenance.device.uuid == f"{two.content['device']['uuid']}-1"


def test_the_joined_run_is_judged_again_like_any_other(two: Machine) -> None:
    two.gate(*only("stability"))
    assert two.judge("run", "again", *only("stability")).returncode in {0, 10, 11}
    assert two.verdicts("again") == two.verdicts()


def test_a_lost_gpu_is_left_and_its_shard_measured_elsewhere(two: Machine) -> None:
    lost = f"{two.content['device']['uuid']}-1"
    (two.recording / f"xid-{lost}").write_text("79")
    done = two.gate(*only("stability"))
    assert f"lost {lost}: Xid 79: GPU has fallen off the bus" in done.stderr
    assert two.verdicts() == of(two.recorded, "stability")
    attempts = {(attempt.number, attempt.gpu): attempt for attempt in evidence(two).attempts}
    assert attempts[1, lost].reason == "Xid 79: GPU has fallen off the bus"
    (again,) = (attempt for (number, _), attempt in attempts.items() if number == 2)
    assert (again.gpu != lost, again.reason, again.shard_index) == (True, "", attempts[1, lost].shard_index)


def test_code_that_loses_every_gpu_fails_and_says_why(two: Machine) -> None:
    first = two.content["device"]["uuid"]
    for gpu in (first, f"{first}-1"):
        (two.recording / f"xid-{gpu}").write_text("79!")
    assert two.gate(*only("stability")).returncode == 10
    assert set(two.verdicts().values()) == {("FAIL", "lost-gpu")}
    attempts = {(attempt.number, attempt.gpu) for attempt in evidence(two).attempts}
    assert attempts == {(number, gpu) for number in (1, 2) for gpu in (first, f"{first}-1")}
    assert two.judge("run", "again", *only("stability")).returncode == 10
    assert two.verdicts("again") == two.verdicts()


def test_a_gpu_that_was_put_aside_is_left_by_the_next_run(two: Machine) -> None:
    first = two.content["device"]["uuid"]
    aside.note(two.folder / "home", f"{first}-1", "Xid 79: GPU has fallen off the bus")
    two.gate(*only("stability"))
    found = evidence(two)
    assert {attempt.gpu for attempt in found.attempts} == {first}
    assert f"{first}-1 was put aside by an earlier run: Xid 79: GPU has fallen off the bus" in found.notes
    assert two.verdicts() == of(two.recorded, "stability")
    aside.note(two.folder / "home", first, "no answer")
    done = two.gate(*only("stability"))
    assert done.returncode == 4
    assert "no GPU is left: " in done.stderr
    assert "fix: flashcore-ci doctor" in done.stderr


def test_the_tool_of_the_judged_checkout_is_never_run(two: Machine, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for name in ("flashcore_ci/__init__.py", "click.py", "sitecustomize.py"):
        file = two.checkout / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"open({str(trap)!r}, 'w')")
    try:
        tool = [sys.executable, "-P", *COMMAND[1:]]
        done = command(two, "gate", *FIXED, "--live", "--out", two.folder / "run", *only("stability"), tool=tool)
    finally:
        shutil.rmtree(two.checkout / "flashcore_ci")
        for name in ("click.py", "sitecustomize.py"):
            (two.checkout / name).unlink()
    assert "measuring 2 shards" in done.stderr
    assert two.verdicts() == of(two.recorded, "stability")
    assert not trap.exists()


def test_a_fault_of_the_kernel_is_never_tried_again(two: Machine) -> None:
    (two.recording / f"xid-{two.content['device']['uuid']}").write_text("31")
    two.gate(*only("stability"))
    assert {attempt.number for attempt in evidence(two).attempts} == {1}


def cut_by_hand(two: Machine) -> list[Path]:
    done = command(two, "shard", "--suite", SUITE, "--gpus", "2", "--out", two.folder / "shards")
    assert done.returncode == 0, done.stderr
    return sorted((two.folder / "shards").glob("shard-*.json"))


def test_a_renamed_shard_is_refused(two: Machine) -> None:
    files = cut_by_hand(two)
    assert len(files) == 2
    renamed = files[0].with_name("shard-001-000000000000.json")
    renamed.write_bytes(files[0].read_bytes())
    refused = command(two, "collect", *FIXED, "--shard", renamed, "--out", two.folder / "x")
    assert refused.returncode == 4
    assert "altered or renamed" in refused.stderr


def test_a_shard_names_its_architecture_and_another_gpu_is_refused(two: Machine) -> None:
    file, _ = cut_by_hand(two)
    assert json.loads(file.read_bytes())["needs"]["architecture"] == "sm_90a"
    two.environment["FAKE_CAPABILITY"] = "10.0"
    refused = command(two, "collect", *FIXED, "--shard", file, "--out", two.folder / "x")
    assert refused.returncode == 4
    cause, fix = refused.stderr.splitlines()
    assert cause == f"flashcore-ci: shard 1 of {SUITE} needs sm_90a, and NVIDIA H200 has compute capability 10.0"
    assert fix == "fix: measure it on such a GPU, or choose one with --gpu"
    assert not (two.folder / "x").exists()


def test_shard_collect_merge_and_require_by_hand(two: Machine) -> None:
    bundles = []
    for file in cut_by_hand(two):
        folder = two.folder / file.stem
        done = command(two, "collect", *FIXED, "--shard", file, "--out", folder)
        assert done.returncode == 0, done.stderr
        bundles.append(two.folder / f"{file.stem}.tar.xz")
        assert command(two, "pack", folder, bundles[-1]).returncode == 0
    shards = ("--shards", two.folder / "shards")
    for name, given in {"there": bundles, "back": [*bundles[::-1], bundles[0]], "half": bundles[:1]}.items():
        merged = command(two, "merge", *given, *shards, "--out", two.folder / name)
        assert merged.returncode == 0, merged.stderr
    assert content(two.folder / "there") == content(two.folder / "back")
    two.judge("there", "whole", *only("stability"))
    assert two.verdicts("whole") == of(two.recorded, "stability")
    two.judge("half", "part", *only("stability"))
    lost = {check: verdict for check, verdict in two.verdicts("part").items() if verdict != two.recorded[check]}
    assert set(lost.values()) == {("INCONCLUSIVE", "no-evidence")}
    for name in ("there", "half", bundles[0]):
        refused = command(two, "require", two.folder / name, "--suite", SUITE)
        assert refused.returncode == 11
        assert "of a shard, or was merged from bundles without signed statements" in refused.stderr
    (two.recording / "unknown").unlink()  # the fakes of other kinds of evidence know only processes with all rows


def content(folder: Path) -> dict[Path, bytes]:
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != MARKER}


def test_the_matrix_of_ci(two: Machine) -> None:
    done = command(two, "fleet", "run", "--engine", "ci", "--gpus", "2", "--suite", SUITE, "--out", two.folder / "shards")
    matrix = json.loads(done.stdout)
    assert [entry["name"] for entry in matrix["include"]] == ["shard 1 of 2", "shard 2 of 2"]
    assert all((two.folder / "shards" / entry["shard"]).is_file() for entry in matrix["include"])


def test_a_shard_refuses_a_plan_that_was_altered(two: Machine) -> None:
    command(two, "shard", "--suite", SUITE, "--gpus", "2", "--out", two.folder / "shards")
    shard = min((two.folder / "shards").glob("shard-*.json"))
    given = two.folder / f"given-{'0' * 64}.json"
    given.write_bytes(b"2\n{}[]")
    refused = command(two, "collect", *FIXED, "--shard", shard, "--given", given, "--out", two.folder / "x")
    assert refused.returncode == 4
    assert "its content is not that of its name" in refused.stderr
    assert not (two.folder / "x").exists()
