"""The gate on a machine with a GPU: the real command line over recorded tool output, and over what may be wrong with it."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from replayed import CORRECTNESS, PROFILE, ROOT, SANITIZERS, SPEED, Machine, all_are, of, only, valid

from flashcore_ci.adapters import ncu
from flashcore_ci.model.reading import Missing

SANITIZER = ROOT / "tests/recordings/sanitizer"


# --- All is well ---------------------------------------------------------------------------------------------------------


def test_the_recorded_run_leads_to_the_recorded_verdicts_and_so_does_its_evidence(machine: Machine) -> None:
    done = machine.gate()
    assert machine.verdicts() == machine.recorded
    assert done.returncode == 10
    valid(machine.folder / "run")
    again = machine.judge("run", "again")
    assert again.returncode == 10, again.stderr
    assert machine.verdicts("again") == machine.recorded
    valid(machine.folder / "again")


def test_the_report_says_where_each_number_is_from(machine: Machine) -> None:
    machine.gate(*only(*PROFILE, "spills"))
    report = json.loads((machine.folder / "run/report.json").read_text())
    details = {v["gate"]: (v["origin"]["kind"], v["origin"]["detail"]) for v in report["verdicts"]}
    device = machine.content["device"]
    assert details["sol-sm"][0] == details["spills"][0] == "live"
    assert details["sol-sm"][1].startswith(f"{device['name']}, driver {device['driver']}, ")
    assert details["spills"][1].startswith("nvcc ")
    assert report["provenance"]["device"] == device


def test_the_fakes_refuse_what_nobody_recorded(machine: Machine) -> None:
    together = machine.together("profile")
    together["argv"] = [part for part in together["argv"] if part != "--nvtx"]
    machine.gate(*only(*PROFILE))
    assert "--nvtx" in machine.unknown
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "tool-failed")
    (machine.recording / "unknown").unlink()


# --- The worker ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_a_signal_kills_fails_its_workload_and_hides_no_other(machine: Machine) -> None:
    together, victim = machine.together("correctness"), "flaky-n100003"
    before = together["workloads"][: together["workloads"].index(victim)]
    outcomes = {name: together["result"]["outcomes"][name] for name in before}
    killed = {**together["result"], "outcomes": outcomes, "started": victim, "finished": False}
    machine.content["processes"].insert(0, {**together, "result": killed, "exit_status": -11})
    machine.gate(*only("finite"))
    expected = of(machine.recorded, "finite")
    assert machine.verdicts() == {**expected, ("finite", victim): ("FAIL", "crash")}


@pytest.mark.parametrize("fault", ["old", "another job", "half a result"])
def test_a_result_that_is_no_answer_to_the_job_counts_for_nothing(machine: Machine, fault: str) -> None:
    together = machine.together("correctness")
    together |= {"fault": fault, "exit_status": 0, "result": {**together["result"], "finished": True}}
    done = machine.gate(*only("max-diff"))
    built = {check: verdict for check, verdict in machine.verdicts().items() if check[1] != "broken-n4"}
    assert all_are(built, "INCONCLUSIVE", "invalid-result")
    assert done.returncode == 11


def test_a_process_that_is_lost_leaves_too_few_samples(machine: Machine) -> None:
    machine.together("timing-2")["fault"] = "another job"
    machine.gate(*only("stability"))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "too-few-processes")


@pytest.mark.parametrize("value", [float("nan"), "nan", "inf", None])
def test_a_sample_that_is_no_number_is_no_sample(machine: Machine, value: float | str | None) -> None:
    machine.together("timing-2")["result"]["outcomes"]["sound-n33554432"]["megacycles"] = value
    machine.gate(*only("stability"))
    sound = ("stability", "sound-n33554432")
    assert machine.verdicts() == {**of(machine.recorded, "stability"), sound: ("INCONCLUSIVE", "too-few-processes")}


def test_a_difference_that_is_nan_is_no_pass(machine: Machine) -> None:
    for process in machine.processes("correctness"):
        for outcome in process["result"]["outcomes"].values():
            outcome.get("readings", {}).update({"diff/max": "nan", "finite/bad-values": "nan"})
    machine.gate(*only("max-diff", "finite"))
    good = [check for check, (outcome, _) in of(machine.recorded, "max-diff", "finite").items() if outcome == "PASS"]
    assert good
    assert {machine.verdicts()[check] for check in good} == {("FAIL", "not-finite")}


# --- ncu -----------------------------------------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "junk": lambda data: random.Random(7).randbytes(len(data)),
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[:4] + bytes([data[4] ^ 1]) + data[5:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_report_is_invalid(machine: Machine, damage: str) -> None:
    machine.report.write_bytes(DAMAGES[damage](machine.report.read_bytes()))
    done = machine.gate(*only(*PROFILE))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "invalid-report")
    assert done.returncode == 11


def test_no_report_at_all_is_invalid(machine: Machine) -> None:
    machine.report.unlink()
    machine.gate(*only(*PROFILE))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "invalid-report")


def test_no_flipped_bit_makes_a_low_share_high(machine: Machine, tmp_path: Path) -> None:
    reader, data, rng = ncu.reader(None), machine.report.read_bytes(), random.Random(2026)
    flipped = tmp_path / "flipped.ncu-rep"
    for _ in range(100):
        at = rng.randrange(len(data))
        flipped.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        found = ncu.readings(ncu.actions(reader, flipped), "scattered-n33554432", ("defect_scattered",))
        share = found if isinstance(found, Missing) else found["sol/dram"]
        assert isinstance(share, Missing) or share.value < 10, f"byte {at}"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n",
            "counters-denied",
        ),
        ("==ERROR== Profiling failed because a driver resource was unavailable.\n", "counters-in-use"),
    ],
)
def test_counters_that_cannot_be_read(machine: Machine, said: str, code: str) -> None:
    machine.together("profile")["out"] = said
    machine.report.unlink()
    done = machine.gate(*only(*PROFILE))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", code)
    assert done.returncode == 11


# --- compute-sanitizer ---------------------------------------------------------------------------------------------------


def test_logs_that_end_before_their_summary_prove_nothing(machine: Machine) -> None:
    for log in machine.logs("racecheck"):
        log.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if "SUMMARY" not in line))
    machine.gate(*only("racecheck"))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "tool-failed")


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        ("memcheck", "ERROR SUMMARY: 0 errors", "ERROR SUMMARY: 1 error"),
        ("racecheck", "0 hazards displayed (0 errors, 0 warnings)", "1 hazard displayed (1 error, 0 warnings)"),
        ("racecheck", "0 hazards displayed (0 errors, 0 warnings)", "1 hazard displayed (0 errors, 1 warning)"),
    ],
)
def test_one_finding_is_a_finding(machine: Machine, check: str, old: str, new: str) -> None:
    (log,) = [log for log in machine.logs(check) if "sound" in log.name]
    assert log.read_text().count(old) == 1
    log.write_text(log.read_text().replace(old, new))
    machine.gate(*only(check))
    expected = of(machine.recorded, check)
    assert machine.verdicts() == {**expected, (check, "sound-n20001"): ("FAIL", "over-limit")}


def test_a_target_that_dies_under_no_hazards_fails(machine: Machine) -> None:
    shutil.copy(SANITIZER / "segv.log", machine.recording / "artifacts/sanitizer/racecheck-sound-n20001.log")
    (alone,) = [process for process in machine.processes("racecheck") if process["workloads"] == ["sound-n20001"]]
    alone |= {"worker_status": -11, "result": {**alone["result"], "outcomes": {}, "started": "sound-n20001", "finished": False}}
    machine.gate(*only("racecheck"))
    assert machine.verdicts() == {**of(machine.recorded, "racecheck"), ("racecheck", "sound-n20001"): ("FAIL", "crash")}


def test_launches_that_the_roll_call_does_not_list_were_not_checked(machine: Machine) -> None:
    listed = [log for log in machine.logs("roll-call") if "defect_sound" in log.read_text()]
    assert listed
    for log in listed:
        log.write_text(log.read_text().replace("Kernel: defect_sound", "Kernel: another"))
    machine.gate(*only(*SANITIZERS))
    sound = {gate: verdict for (gate, target), verdict in machine.verdicts().items() if target == "sound-n20001"}
    assert sound == dict.fromkeys(SANITIZERS, ("FAIL", "kernel-not-seen"))


def test_a_sanitizer_that_is_too_old_proves_nothing(machine: Machine) -> None:
    machine.content["versions"]["compute-sanitizer"] = (SANITIZER / "version-2025.3.txt").read_text()
    machine.gate(*only(*SANITIZERS))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "tool-too-old")


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
    assert any("cannot tell who else uses the GPU" in note for note in notes)


def test_a_gpu_that_fails_a_known_good_kernel_blames_no_kernel(machine: Machine) -> None:
    for probe in machine.processes("probe"):
        probe["result"]["outcomes"] = {"probe": {"missing": {"code": "device-unhealthy", "message": "2 + 2 came out as 5"}}}
    machine.gate(*only(*CORRECTNESS, *SPEED))
    built = {check: verdict for check, verdict in machine.verdicts().items() if check[1] != "broken-n4"}
    assert all_are(built, "INCONCLUSIVE", "device-unhealthy")


def refused(machine: Machine, *arguments: str, because: str) -> None:
    """Exit code 4, one line that says why, one that says what to do; and reports that pass nothing."""
    done = machine.gate(*arguments)
    assert done.returncode == 4, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("flashcore-ci: ", "fix: "))]
    assert len(lines) == 2, done.stderr
    assert because in lines[0]
    assert "Traceback" not in done.stderr
    report = machine.folder / "run/report.json"
    if report.exists():
        valid(machine.folder / "run")
        assert json.loads(report.read_text())["exit_code"] == 4


def test_without_ncu(machine: Machine) -> None:
    (machine.tools / "ncu").unlink()
    if ncu.find() is not None:
        pytest.skip("this machine has an ncu of its own")
    refused(machine, *only(*PROFILE), because="ncu (Nsight Compute) is not here")


def test_without_compute_sanitizer(machine: Machine) -> None:
    (machine.tools / "compute-sanitizer").unlink()
    if shutil.which("compute-sanitizer", path="/usr/local/bin:/usr/bin:/bin:/usr/local/cuda/bin"):
        pytest.skip("this machine has a compute-sanitizer of its own")
    refused(machine, *only("memcheck"), because="compute-sanitizer is not here")


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
    """A limit on the size of files (in 512 bytes) stands in for it: writing fails before, at and after the plan."""
    machine.prefix = ("/bin/sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh")
    refused(machine, *only(*PROFILE), because="File too large")
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
    first.communicate(timeout=60)
    second.communicate(timeout=60)
    assert machine.verdicts("first") == machine.verdicts("second") == of(machine.recorded, *PROFILE)


def test_waiting_for_a_gpu_has_an_end(machine: Machine, waits: Path) -> None:
    first = machine.start(*only(*PROFILE), out="first")
    machine.wait_until_waiting(first)
    refused(machine, "--lock-timeout", "0.5", *only(*PROFILE), because="another gate has held this GPU")
    waits.touch()
    first.communicate(timeout=60)
    assert machine.verdicts("first") == of(machine.recorded, *PROFILE)
