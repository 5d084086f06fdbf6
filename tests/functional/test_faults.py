"""What a machine does to a gate that measures on it: it dies, drowns it in output, speaks another language, loses its GPU."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from replayed import CORRECTNESS, PATIENT, PROFILE, SANITIZERS, SPEED, UNBUILT, Machine, all_are, of, once_green, only, valid

from flashcore_ci.store.claim import MARKER


@pytest.fixture
def waits(machine: Machine) -> Path:
    """A file that the worker of the profile waits for; while it does, its gate has the GPU."""
    file = machine.folder / "go on"
    machine.together("profile")["waits_for"] = str(file)
    return file


@pytest.mark.parametrize(
    ("gates", "stage"), [(("racecheck",), "racecheck"), (CORRECTNESS, "correctness"), (("stability",), "timing-2")]
)
def test_a_gate_that_is_killed_at_any_stage_leaves_nothing_that_could_be_judged(
    machine: Machine, gates: tuple[str, ...], stage: str
) -> None:
    machine.suite = PATIENT
    never = {"waits_for": str(machine.folder / "never"), "timed_out": False}  # else the gate ends it when it sees its log
    machine.together(stage).update(never)
    tool = machine.start(*only(*gates))
    machine.wait_until_waiting(tool)
    os.kill(tool.pid, signal.SIGKILL)
    tool.communicate(timeout=600)
    assert not (machine.folder / "run/report.json").exists()
    assert machine.judge("run", "again").returncode == 4
    machine.end()  # the worker, and the tool that waits for it, would wait for ever


def test_a_gate_that_is_killed_leaves_no_verdict_and_does_not_hinder_the_next(machine: Machine, waits: Path) -> None:
    (machine.folder / "run").mkdir()
    (machine.folder / "run" / MARKER).touch()
    (machine.folder / "run/report.json").write_text("of an earlier run", encoding="utf-8")
    tool = machine.start(*only(*PROFILE))
    machine.wait_until_waiting(tool)
    os.kill(tool.pid, signal.SIGKILL)
    tool.communicate(timeout=600)
    assert sorted(file.name for file in (machine.folder / "run").iterdir()) == [MARKER, "artifacts", "logs", "plan.json"]
    refused = machine.judge("run", "again")
    assert refused.returncode == 4
    assert "manifest.json" in refused.stderr
    assert "Traceback" not in refused.stderr
    waits.touch()
    machine.gate(*only(*PROFILE))
    assert machine.verdicts() == of(machine.recorded, *PROFILE)


def test_a_gate_that_is_killed_while_it_builds_or_plans_leaves_no_verdict(machine: Machine) -> None:
    tool = machine.start(*only(*PROFILE))
    os.kill(tool.pid, signal.SIGKILL)
    tool.communicate(timeout=600)
    assert not (machine.folder / "run/report.json").exists()
    assert machine.judge("run", "again").returncode == 4


def test_a_gpu_that_is_lost_in_the_middle_is_nobody_s_fault_and_what_it_showed_before_stands(machine: Machine) -> None:
    machine.together("profile")["loses_the_gpu"] = True
    done = machine.gate(*only("finite", *SPEED))
    assert of(machine.verdicts(), "finite") == of(machine.recorded, "finite")
    built = {check: verdict for check, verdict in of(machine.verdicts(), *SPEED).items() if check[1] not in UNBUILT}
    assert all_are(built, "INCONCLUSIVE", "device-unhealthy")
    assert "Traceback" not in done.stderr
    valid(machine.folder / "run")
    machine.judge("run", "again", *only("finite", *SPEED))
    assert machine.verdicts("again") == machine.verdicts()


def test_a_gpu_that_is_lost_by_the_last_workload_blames_no_kernel(machine: Machine) -> None:
    machine.together("correctness")["loses_the_gpu"] = True
    machine.gate(*only("finite"))
    built = {check: verdict for check, verdict in machine.verdicts().items() if check[1] not in UNBUILT}
    assert all_are(built, "INCONCLUSIVE", "device-unhealthy")


def test_a_clock_that_is_set_back_loses_no_result(machine: Machine) -> None:
    machine.environment["CLOCK_IS_SET_BACK"] = str(machine.folder / "run/plan.json")
    machine.gate(*only("finite", *PROFILE))
    assert machine.verdicts() == of(machine.recorded, "finite", *PROFILE)


def test_two_gates_that_start_at_once_measure_one_after_the_other(machine: Machine) -> None:
    tools = {out: machine.start(*only(*PROFILE), out=out) for out in ("one", "two")}
    for tool in tools.values():
        tool.communicate(timeout=600)
    spans = []
    for out in tools:
        assert machine.verdicts(out) == of(machine.recorded, *PROFILE)
        jobs, ends = (
            [file.stat().st_mtime for file in (machine.folder / out / "logs").glob(f"*/{name}.json")] for name in ("job", "ended")
        )
        spans.append((min(jobs), max(ends)))
    (_, first_ended), (second_began, _) = sorted(spans)
    assert first_ended <= second_began


def test_a_hundred_megabytes_of_a_tool_s_output_in_no_encoding_change_nothing(machine: Machine) -> None:
    machine.together("profile")["megabytes"] = 100
    machine.gate(*only(*PROFILE))
    assert machine.verdicts() == of(machine.recorded, *PROFILE)
    valid(machine.folder / "run")


def test_a_log_of_noise_is_no_clean_log(machine: Machine) -> None:
    for log in machine.logs("synccheck"):
        log.write_bytes(b"\xff\xfe\x00\xed\xa0\x80" * 1_000_000)
    machine.gate(*only("synccheck"))
    assert once_green(machine, "synccheck") <= {("INCONCLUSIVE", "control-failed"), ("INCONCLUSIVE", "tool-failed")}


@pytest.mark.parametrize(
    "variables", [{"LC_ALL": "C"}, {"LC_ALL": "tr_TR.UTF-8"}, {"PYTHONIOENCODING": "ascii", "LANG": "POSIX"}]
)
def test_the_language_of_the_machine_changes_nothing(machine: Machine, variables: dict[str, str]) -> None:
    machine.environment |= variables
    done = machine.gate(*only(*PROFILE))
    assert machine.verdicts() == of(machine.recorded, *PROFILE), done.stderr
    valid(machine.folder / "run")


@pytest.mark.parametrize("checks", [("initcheck",), pytest.param(SANITIZERS, marks=pytest.mark.nightly)])
def test_a_tool_that_does_not_see_its_control_proves_nothing(machine: Machine, checks: tuple[str, ...]) -> None:
    for check in checks:
        (log,) = machine.logs(f"control-{check}")
        log.write_bytes(
            next(file for file in machine.logs(check) if "sound" in file.name or file.name == f"{check}.log").read_bytes()
        )
        machine.processes(f"control-{check}")[0]["exit_status"] = 0
    machine.gate(*only(*checks))
    for check in checks:
        assert once_green(machine, check) == {("INCONCLUSIVE", "control-failed")}
        found = of(machine.verdicts(), check)
        findings = {key: verdict for key, verdict in of(machine.recorded, check).items() if verdict == ("FAIL", "over-limit")}
        assert found.items() >= findings.items()
