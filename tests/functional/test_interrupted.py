"""SIGINT, SIGTERM and SIGHUP while the GPU is being measured: the reports are there and valid, and nothing is left running."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest
from replayed import CORRECTNESS, PATIENT, PROFILE, SPEED, UNBUILT, Machine, all_are, of, only, valid

from flashcore_ci.run.reports import FILES

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
STAGES = {
    "correctness": (CORRECTNESS, "correctness"),
    "sanitizer": (("racecheck",), "racecheck"),
    "profile": (PROFILE, "profile"),
    "timing": (("stability",), "timing-2"),
}
SECONDS = 60.0
"""On a busy machine. A worker that nobody stops waits for ever."""


@pytest.fixture(autouse=True)
def hangup() -> Iterator[None]:
    """Let SIGHUP end a gate, also under `nohup make test`. A gate that starts with it ignored goes on, as it should."""
    before = signal.signal(HUP, signal.SIG_DFL)
    yield
    signal.signal(HUP, before)


def stopped(machine: Machine, gates: tuple[str, ...], process: str, *signals: signal.Signals, deaf: bool = False) -> int:
    """Start a gate, send the signals while the worker of ``process`` is busy; the exit code."""
    if process in {"correctness", "racecheck"}:  # on a busy machine the short limits of the test could be first
        machine.suite = PATIENT
    for shared in machine.shared(process):
        shared.update({"waits_for": str(machine.folder / "never"), "timed_out": False, "deaf": deaf})
    tool = machine.start(*only(*gates))
    machine.wait_until_waiting(tool)
    assert machine.survivors()
    began = time.monotonic()
    for number in signals:
        tool.send_signal(number)
        time.sleep(0.05)
    _, errors = tool.communicate(timeout=SECONDS)
    assert time.monotonic() - began < SECONDS
    assert "Traceback" not in errors
    assert machine.survivors() == []
    valid(machine.folder / "run")
    assert [name for name in FILES if not (machine.folder / "run" / name).stat().st_size] == []
    return tool.returncode


@pytest.mark.parametrize(
    ("stage", "signals"),
    [
        *((stage, [TERM]) for stage in STAGES),
        ("correctness", [INT]),
        ("profile", [HUP]),
        ("sanitizer", [TERM, TERM]),
        ("timing", [INT, INT]),
    ],
)
def test_unfinished_checks_are_interrupted(machine: Machine, stage: str, signals: list[signal.Signals]) -> None:
    gates, process = STAGES[stage]
    assert stopped(machine, gates, process, *signals) == 11
    verdicts = {check: verdict for check, verdict in machine.verdicts().items() if check[1] not in UNBUILT}
    assert all_are(verdicts, "INCONCLUSIVE", "interrupted")
    report = json.loads((machine.folder / "run/report.json").read_text())
    assert (report["outcome"], report["exit_code"]) == ("INCONCLUSIVE", 11)


def test_what_was_done_before_counts_and_a_failure_stays_one(machine: Machine) -> None:
    assert stopped(machine, ("finite", *SPEED), "profile", TERM) == 10
    assert of(machine.verdicts(), "finite") == of(machine.recorded, "finite")
    assert all_are(of(machine.verdicts(), *SPEED), "INCONCLUSIVE", "interrupted")


def test_an_interrupted_run_is_judged_again_as_it_was(machine: Machine) -> None:
    stopped(machine, ("finite", *SPEED), "profile", TERM)
    machine.judge("run", "again", *only("finite", *SPEED))
    assert machine.verdicts("again") == machine.verdicts()


@pytest.mark.parametrize("signals", [[TERM], [TERM, INT]], ids=["once", "twice"])
def test_a_worker_that_ignores_the_first_signal_is_killed(machine: Machine, signals: list[signal.Signals]) -> None:
    assert stopped(machine, CORRECTNESS, "correctness", *signals, deaf=True) == 11


def test_a_gate_that_waits_for_the_gpu_can_be_stopped(machine: Machine) -> None:
    machine.together("profile")["waits_for"] = str(machine.folder / "go on")
    first = machine.start(*only(*PROFILE), out="first")
    machine.wait_until_waiting(first)
    second = machine.start(*only(*PROFILE))
    assert second.stderr is not None
    next(line for line in second.stderr if "another gate" in line)
    second.send_signal(TERM)
    second.communicate(timeout=SECONDS)
    assert second.returncode == 11
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "interrupted")
    valid(machine.folder / "run")
    (machine.folder / "go on").touch()
    first.communicate(timeout=300)
    assert machine.verdicts("first") == of(machine.recorded, *PROFILE)


def test_a_tool_that_is_killed_leaves_its_lock_to_the_next(machine: Machine) -> None:
    machine.together("profile")["waits_for"] = str(machine.folder / "go on")
    first = machine.start(*only(*PROFILE), out="first")
    machine.wait_until_waiting(first)
    first.kill()
    first.communicate()
    (machine.folder / "go on").touch()
    assert machine.gate(*only(*PROFILE)).returncode == 10
    assert machine.verdicts() == of(machine.recorded, *PROFILE)
