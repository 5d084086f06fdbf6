"""Kill live gates at random moments, and look for what is left.

python tools/study/kill_gates.py --out FILE [GATE ARGUMENTS]

Each gate gets SIGKILL between 0.5 and 12 s after its start, one moment per equal part of that span. A process counts as left if it has
the mark of the gate in its environment, or if it descended from the gate or shared a session with a descendant. The memory of the
GPU must be back at what it was before the first gate. The exit status is 1 if anything is left after 5 s.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from flashcore_ci.adapters import nvml  # noqa: E402 - this checkout's

FIRST, LAST = 0.5, 12.0
LIMIT_SECONDS = 5.0
SLACK_MIB = 8
"""The driver rounds what it reports."""
LOOK_SECONDS = 0.02
Process = tuple[int, int]
"""Number and start time: a number alone may be used again."""


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent, group, session and so on. Empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def running() -> Iterator[tuple[Process, int, int]]:
    """Yield each process that is not a zombie, its parent and its session."""
    for folder in os.listdir("/proc"):  # noqa: PTH208 - pathlib is too slow for 50 looks a second
        if folder.isdecimal() and (fields := stat(int(folder))) and fields[0] not in {"Z", "X"}:
            yield (int(folder), int(fields[19])), int(fields[1]), int(fields[3])


def descendants(gate: int, known: set[Process], sessions: set[int]) -> None:
    """Add today's descendants of ``gate`` and of the ``known``, and their sessions."""
    alive = list(running())
    parents = {gate, *(process[0] for process in known)}
    while found := {(process, session) for process, parent, session in alive if parent in parents and process not in known}:
        known |= {process for process, _ in found}
        sessions |= {session for _, session in found}
        parents |= {process[0] for process, _ in found}


def is_marked(pid: int, mark: str) -> bool:
    """Tell whether the environment holds the mark."""
    with contextlib.suppress(OSError):
        return f"FLASHCORE_CI_KILL_MARK={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def left(gate: int, mark: str, known: set[Process], sessions: set[int]) -> set[int]:
    """Return the numbers of processes that outlived the gate."""
    ours = sessions - {os.getsid(0)}
    return {
        process[0]
        for process, _, session in running()
        if process[0] != gate and (process in known or session in ours or is_marked(process[0], mark))
    }


def memory_used(gpu: str) -> int:
    """Return the MiB that the GPU has given out, or 0 without a GPU."""
    return nvml.read(gpu).memory_used >> 20 if gpu else 0


def kill_one(argv: list[str], after: float, gpu: str, idle: int, log: Path) -> dict[str, object]:
    """Start a gate, kill it ``after`` seconds, and wait until nothing is left."""
    mark, known, sessions = uuid.uuid4().hex, set[Process](), set[int]()
    began = time.monotonic()
    with log.open("wb") as output:
        environment = {**os.environ, "FLASHCORE_CI_KILL_MARK": mark}
        gate = subprocess.Popen(argv, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    while time.monotonic() < began + after and gate.poll() is None:
        descendants(gate.pid, known, sessions)
        time.sleep(LOOK_SECONDS)
    ended = gate.poll()
    held = memory_used(gpu)
    descendants(gate.pid, known, sessions)
    gate.kill()
    killed = time.monotonic()
    gate.wait()
    while (survivors := left(gate.pid, mark, known, sessions)) and time.monotonic() < killed + LIMIT_SECONDS:
        time.sleep(LOOK_SECONDS)
    gone = time.monotonic() - killed
    while (used := memory_used(gpu)) > idle + SLACK_MIB and time.monotonic() < killed + LIMIT_SECONDS:
        time.sleep(LOOK_SECONDS)
    freed = time.monotonic() - killed
    for pid in survivors:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    words = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return {
        "after": round(after, 2), "ended_before": ended, "stage": words[-1][:80] if words else "", "processes": len(known),
        "held_mib": held - idle, "left": sorted(survivors), "gone_s": round(gone, 3), "left_mib": used - idle, "freed_s": round(freed, 3),
        "good": ended is None and not survivors and used <= idle + SLACK_MIB,
    }  # fmt: skip


def main() -> int:
    """Kill as often as demanded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--gpu", default="0", help="as nvidia-smi names it, or empty for none")
    parser.add_argument("--limit", type=float, default=170.0, help="seconds in all: no gate starts later")
    parser.add_argument("--out", type=Path, required=True)
    options, given = parser.parse_known_args()
    argv = [sys.executable, "-m", "flashcore_ci.cli.main", "gate", "--live", *(given or ["--suite", "gates/smoke.toml"])]
    argv += ["--gpu", options.gpu] if options.gpu else []
    draw, began, idle = random.Random(options.seed), time.monotonic(), memory_used(options.gpu)  # noqa: S311 - moments, not secrets
    part = (LAST - FIRST) / options.count
    moments = [FIRST + part * (number + draw.random()) for number in range(options.count)]
    draw.shuffle(moments)
    done: list[dict[str, object]] = []
    for number, after in enumerate(moments):
        if time.monotonic() - began > options.limit - after - LIMIT_SECONDS:
            break
        folder = options.out.parent / f"killed-{number}"
        found = kill_one([*argv, "--out", str(folder)], after, options.gpu, idle, options.out.parent / f"killed-{number}.log")
        done.append(found)
        print(json.dumps(found), flush=True)
        record = {"seed": options.seed, "idle_mib": idle, "seconds": round(time.monotonic() - began, 1), "killed": done}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    good = sum(bool(found["good"]) for found in done)
    print(f"{good} of {len(done)} killed gates left nothing (demanded: {options.count})")
    return int(good < options.count)


if __name__ == "__main__":
    sys.exit(main())
