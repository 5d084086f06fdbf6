"""The gate dies of SIGKILL, and no descendant outlives it: double forks, new sessions and deaf processes included.

``FLASHCORE_CI_KILLS`` is the number of gates that are killed at a random moment. The nightly job asks for 200.
Several processes share them if each has a ``FLASHCORE_CI_KILLS_SEED``.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from replayed import PROFILE, Machine, only

from flashcore_ci.adapters import process

KILLS = int(os.environ.get("FLASHCORE_CI_KILLS", "3"))
SEED = int(os.environ.get("FLASHCORE_CI_KILLS_SEED", "15"))
ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 30.0
"""On a busy machine. What is left behind would sleep for 600 s."""
DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
def double_fork():
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(600)
def in_turn():  # each process forks the next one and ends
    if os.fork() == 0:
        while not os.fork():
            os.setsid()
        os._exit(0)
def many():
    for _ in range(20):
        if os.fork() == 0:
            os.setsid()
            os.fork()
            time.sleep(600)
def thread():
    import threading
    threading.Thread(target=double_fork).start()
def stopped():
    if os.fork() == 0:
        os.setsid()
        os.kill(os.getpid(), signal.SIGSTOP)
def new_group():
    if os.fork() == 0:
        os.setpgid(0, 0)
        time.sleep(600)
def kill_reaper():
    double_fork()
    os.kill(os.getppid(), signal.SIGKILL)
def stop_reaper():
    double_fork()
    os.kill(os.getppid(), signal.SIGSTOP)
def stop_supervisor():
    double_fork()
    supervisor = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(os.getppid(), signal.SIGSTOP)
def kill_supervisor():
    double_fork()
    supervisor = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
def no_death_signal():
    import ctypes
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    double_fork()
globals()[sys.argv[1]]()
open(sys.argv[2], "w").close()
time.sleep(float(sys.argv[3]))
"""
GATE = """
import sys
from pathlib import Path
from flashcore_ci.adapters import lock, process
from flashcore_ci.model.errors import CannotCollectError
daemon, kind, folder, seconds, timeout = sys.argv[1:]
with lock.hold(Path(folder) / "lock", timeout=1, waiting=print):
    try:
        done = process.run(
            [sys.executable, "-c", daemon, kind, folder + "/ready", seconds], logs=Path(folder), name="child", timeout=float(timeout)
        )
        print(done.returncode, done.timed_out)
    except CannotCollectError as error:
        print(error)
"""
WAYS = ("double_fork", "in_turn", "many", "thread", "stopped", "new_group", "no_death_signal")
ATTACKS = ("kill_reaper", "stop_reaper", "stop_supervisor", "kill_supervisor")


def marked(mark: str) -> list[int]:
    """The processes whose environment holds ``mark``. One that ended, or is a zombie, has none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def none_left(mark: str) -> bool:
    deadline = time.monotonic() + LIMIT_SECONDS
    while left := marked(mark):
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.02)
    return True


def start(folder: Path, kind: str, *, seconds: float, timeout: float = 60.0) -> tuple[subprocess.Popen[str], str]:
    mark = uuid.uuid4().hex
    argv = [sys.executable, "-c", GATE, DAEMON, kind, str(folder), str(seconds), str(timeout)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MARK": mark}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment), mark


def wait_until(file: Path) -> None:
    deadline = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_free(file: Path) -> bool:
    with file.open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("kind", [*WAYS, *ATTACKS[1:]])
def test_nothing_outlives_a_killed_gate_and_the_lock_lives_as_long_as_a_child(tmp_path: Path, kind: str) -> None:
    gate, mark = start(tmp_path, kind, seconds=600)
    wait_until(tmp_path / "ready")
    assert len(marked(mark)) > 2
    assert not is_free(tmp_path / "lock")
    gate.kill()
    while not is_free(tmp_path / "lock"):
        time.sleep(0.001)
    assert set(marked(mark)) <= {gate.pid} or kind in ATTACKS, "the lock was free before the last child had ended"
    gate.communicate()
    assert none_left(mark)


@pytest.mark.parametrize("kind", WAYS)
def test_nothing_outlives_a_child_that_ended(tmp_path: Path, kind: str) -> None:
    gate, mark = start(tmp_path, kind, seconds=0)
    output, _ = gate.communicate(timeout=300)
    assert output == "0 False\n"
    assert none_left(mark)


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_child_that_attacks_its_supervisor_is_ended(tmp_path: Path, kind: str) -> None:
    for timeout in (2, 20, 100):
        folder = tmp_path / str(timeout)
        folder.mkdir()
        gate, mark = start(folder, kind, seconds=600, timeout=timeout)
        output, _ = gate.communicate(timeout=300)
        assert none_left(mark)
        if output != "-15 True\n":  # then it ended before it could attack
            break
    assert output in {"-9 False\n", "-9 True\n"}


def test_a_child_that_prints_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_OUTPUT", 1 << 20)
    done = process.run(["yes"], logs=tmp_path, name="child", timeout=60)
    assert (done.flooded, done.returncode) == (True, -9)


def test_gates_killed_at_random_moments_leave_nothing(machine: Machine) -> None:
    machine.content["daemons"] = True
    draw = random.Random(SEED)
    for number in range(KILLS):
        mark = machine.environment["MARK"] = uuid.uuid4().hex
        gate = machine.start(out=f"run-{number}")
        time.sleep(draw.uniform(0.2, 5.0))
        gate.kill()
        gate.communicate()
        assert none_left(mark), f"gate {number} left processes behind"
    del machine.content["daemons"], machine.environment["MARK"]
    assert machine.gate(*only(*PROFILE)).returncode == 10
