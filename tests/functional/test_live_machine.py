"""The gate on a machine that is shared, sick, full or without its tools."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from replayed import CORRECTNESS, PROFILE, SPEED, UNBUILT, Machine, all_are, of, only, valid

from flashcore_ci.adapters import ncu
from flashcore_ci.run.reports import FILES

# --- The machine ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """Another program, which the driver lists as a user of the GPU."""
    process = subprocess.Popen(["/bin/sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_stranger_on_the_gpu_disturbs_what_is_timed_and_nothing_else(machine: Machine, stranger: subprocess.Popen) -> None:
    machine.content["users"] = [stranger.pid]
    machine.gate(*only("finite", *SPEED))
    assert all_are(of(machine.verdicts(), *SPEED), "INCONCLUSIVE", "gpu-busy")
    assert of(machine.verdicts(), "finite") == of(machine.recorded, "finite")


def test_a_stranger_may_be_allowed(machine: Machine, stranger: subprocess.Popen) -> None:
    machine.content["users"] = [stranger.pid]
    machine.gate("--allow-process", "sle*", *only(*PROFILE))
    assert machine.verdicts() == of(machine.recorded, *PROFILE)


def test_a_user_out_of_sight_is_told(machine: Machine) -> None:
    machine.content["users"] = [2**22 + 1]  # above the kernel's largest process id
    machine.gate(*only(*PROFILE))
    assert machine.verdicts() == of(machine.recorded, *PROFILE)
    notes = json.loads((machine.folder / "run/report.json").read_text())["notes"]
    assert any("cannot tell which program uses the GPU" in note for note in notes)


def test_a_gpu_that_fails_a_known_good_kernel_blames_no_kernel(machine: Machine) -> None:
    for probe in machine.processes("probe"):
        probe["result"]["outcomes"] = {"probe": {"missing": {"code": "device-unhealthy", "message": "2 + 2 came out as 5"}}}
    machine.gate(*only(*CORRECTNESS, *SPEED))
    built = {check: verdict for check, verdict in machine.verdicts().items() if check[1] not in UNBUILT}
    assert all_are(built, "INCONCLUSIVE", "device-unhealthy")


def refused(machine: Machine, *arguments: str, because: str, files: Iterable[str] = FILES) -> None:
    """Exit code 4, one line that says why, one that says what to do; and reports that pass nothing."""
    done = machine.gate(*arguments)
    assert done.returncode == 4, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("flashcore-ci: ", "fix: "))]
    assert len(lines) == 2, done.stderr
    assert because in lines[0]
    assert "Traceback" not in done.stderr
    report = machine.folder / "run/report.json"
    if report.exists():
        valid(machine.folder / "run", files=files)
        assert json.loads(report.read_text())["exit_code"] == 4


def test_without_ncu(machine: Machine) -> None:
    (machine.tools / "ncu").unlink()
    if ncu.find() is not None:
        pytest.skip("this machine has an ncu of its own")
    refused(machine, *only(*PROFILE), because="ncu (Nsight Compute) was not found")


def test_without_compute_sanitizer(machine: Machine) -> None:
    (machine.tools / "compute-sanitizer").unlink()
    if shutil.which("compute-sanitizer", path="/usr/local/bin:/usr/bin:/bin:/usr/local/cuda/bin"):
        pytest.skip("this machine has a compute-sanitizer of its own")
    refused(machine, *only("memcheck"), because="compute-sanitizer was not found")


def test_without_a_driver(machine: Machine) -> None:
    machine.content["device"] = {}
    refused(machine, *only(*PROFILE), because="no NVIDIA GPU")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="this interpreter has torch")
def test_without_torch(machine: Machine) -> None:
    machine.environment["FLASHCORE_CI_PYTHON"] = sys.executable
    refused(machine, *only(*PROFILE), because="No module named 'torch'")


def test_a_run_folder_that_cannot_be_written(machine: Machine) -> None:
    (machine.folder / "file").touch()
    done = machine.gate(*only(*PROFILE), out="file/run")
    assert done.returncode == 4, done.stderr
    assert "file/run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder(machine: Machine) -> None:
    (machine.folder / "sealed").mkdir(mode=0o555)
    assert machine.gate(*only(*PROFILE), out="sealed/run").returncode == 4


@pytest.mark.parametrize("blocks", [4, 10, 40])
def test_a_disk_that_takes_no_more(machine: Machine, blocks: int) -> None:
    """A limit on the size of files (in 512 bytes) stands in for it: writing fails before, at and after the plan.

    Reports that are larger than that cannot be had.
    """
    machine.prefix = ("/bin/sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh")
    refused(machine, *only(*PROFILE), because="File too large", files=("report.json", "junit.xml", "comment.md"))
    assert not (machine.folder / "run/manifest.json").exists()


# --- Two gates at once ---------------------------------------------------------------------------------------------------


@pytest.fixture
def waits(machine: Machine) -> Path:
    """A file that the worker of the profile waits for; while it does, its gate has the GPU."""
    file = machine.folder / "go on"
    machine.together("profile")["waits_for"] = str(file)
    return file


def test_the_second_gate_on_a_gpu_waits_and_says_so(machine: Machine, waits: Path) -> None:
    first = machine.start(*only(*PROFILE), out="first")
    machine.wait_until_waiting(first)
    second = machine.start(*only(*PROFILE), out="second")
    assert second.stderr is not None
    said = next(line for line in second.stderr if "another gate" in line)
    assert f"process {first.pid}" in said
    waits.touch()
    first.communicate(timeout=600)
    second.communicate(timeout=600)
    assert machine.verdicts("first") == machine.verdicts("second") == of(machine.recorded, *PROFILE)


def test_waiting_for_a_gpu_has_an_end(machine: Machine, waits: Path) -> None:
    first = machine.start(*only(*PROFILE), out="first")
    machine.wait_until_waiting(first)
    refused(machine, "--lock-timeout", "0.5", *only(*PROFILE), because="another gate has held this GPU")
    waits.touch()
    first.communicate(timeout=600)
    assert machine.verdicts("first") == of(machine.recorded, *PROFILE)
