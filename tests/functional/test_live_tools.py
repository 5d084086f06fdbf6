"""The gate over what ncu and compute-sanitizer left behind: damaged, cut short, refused, or of a version that is too old."""

from __future__ import annotations

import contextlib
import lzma
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from replayed import PROFILE, ROOT, SANITIZERS, Machine, all_are, of, once_green, only

from flashcore_ci.adapters import ncu, process
from flashcore_ci.model.reading import Missing

sys.path.insert(0, str(ROOT / "tools/study"))
import fuzz_apart

SANITIZER = ROOT / "tests/recordings/sanitizer"


# --- ncu -----------------------------------------------------------------------------------------------------------------


def fatal(_: bytes) -> bytes:
    """A report with one byte changed, on which ncu's reader aborts."""
    data = lzma.decompress((ROOT / "tests/recordings/ncu/two-workloads.ncu-rep.xz").read_bytes())
    assert data[109_027] == 0
    return data[:109_027] + b"\x04" + data[109_028:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "fatal": fatal,
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


def test_a_report_may_end_its_reader_and_not_the_gate(tmp_path: Path) -> None:
    (tmp_path / "fatal.ncu-rep").write_bytes(fatal(b""))
    argv = ncu.reading_argv(tmp_path / "ncu", tmp_path / "fatal.ncu-rep")
    done = process.run(argv, logs=tmp_path, name="read", timeout=600, variables={"PYTHONPATH": str(ROOT)})
    assert done.signal_name == "SIGABRT"
    assert ncu.parse_actions(done.text()) == ()


def test_no_report_at_all_is_invalid(machine: Machine) -> None:
    machine.report.unlink()
    machine.gate(*only(*PROFILE))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "invalid-report")


def test_no_flipped_bit_makes_a_low_share_high(machine: Machine, tmp_path: Path) -> None:
    data, rng = machine.report.read_bytes(), random.Random(2026)
    with contextlib.closing(fuzz_apart.Reports(tmp_path)) as reports:
        for _ in range(100):
            at = rng.randrange(len(data))
            with contextlib.suppress(fuzz_apart.DiedError):
                actions = reports.actions(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
                found = ncu.make_readings(actions, "scattered-n33554432", ("defect_scattered",))
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
    assert once_green(machine, "racecheck") == {("INCONCLUSIVE", "tool-failed")}


ONE = {
    "memcheck": ("ERROR SUMMARY: 0 errors", "ERROR SUMMARY: 1 error"),
    "racecheck": ("0 hazards displayed (0 errors, 0 warnings)", "1 hazard displayed (0 errors, 1 warning)"),
}


AT_NIGHT = pytest.mark.nightly  # one tool by day, because each replays many runs


@pytest.mark.parametrize("checks", [("racecheck",), pytest.param(tuple(ONE), marks=AT_NIGHT)])
def test_one_finding_is_a_finding(machine: Machine, checks: tuple[str, ...]) -> None:
    for check in checks:
        old, new = ONE[check]
        (log,) = [log for log in machine.logs(check) if "sound" in log.name]
        assert log.read_text().count(old) == 1
        log.write_text(log.read_text().replace(old, new))
    machine.gate(*only(*checks))
    found = {(check, "sound-n20001"): ("FAIL", "over-limit") for check in checks}
    assert machine.verdicts() == {**of(machine.recorded, *checks), **found}


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


@pytest.mark.parametrize("checks", [("memcheck",), pytest.param(SANITIZERS, marks=AT_NIGHT)])
def test_a_sanitizer_that_is_too_old_proves_nothing(machine: Machine, checks: tuple[str, ...]) -> None:
    machine.content["versions"]["compute-sanitizer"] = (SANITIZER / "version-2025.3.txt").read_text()
    machine.gate(*only(*checks))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "tool-too-old")
