"""Stand in for the worker's interpreter: describe for real, and take every timing from RECORDING/times.json.

The job's name gives the side, unless ``commits`` has the commit of its files. ``wait`` names a file that every timing after the first round waits for, like a long kernel.
"""

import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path

WORKER = ["-m", "flashcore_ci.worker"]


def main(argv: list[str]) -> int:
    if argv[1] == "-P":  # it has no torch to import, so each child is a program of its own
        return 1
    job, result = map(Path, argv[-2:])
    data = job.read_bytes()
    content = json.loads(data)
    if content["kind"] == "describe":
        os.execv(sys.executable, [sys.executable, *WORKER, str(job), str(result)])
    folder = Path(os.environ["RECORDING"])
    say(result, content, data, started=None, finished=False, outcomes={})
    wait_for(content["options"].get("go"))
    outcomes = {"probe": {}}
    if content["kind"] == "timing":
        times = json.loads((folder / "times.json").read_bytes())
        name = job.parent.name.partition("-")[2]
        with (folder / "timed").open("a", encoding="ascii") as file:
            file.write(f"{name}\n")
        if not name.startswith("round-0-"):
            wait_for(times.get("wait"))
        random.seed(name)  # the same in every test run
        file = content["subjects"][0]["file"]
        cycles = next((value for commit, value in times.get("commits", {}).items() if commit in file), None)
        cycles = times[name.rpartition("-")[2]] if cycles is None else cycles
        outcomes = {work["id"]: outcome(cycles) for work in content["workloads"]}
    say(result, content, data, started=None, finished=True, outcomes=outcomes)
    return 0


def outcome(cycles: float | str) -> dict:
    """Return a sample of ``cycles`` megacycles with 0.01 % noise, or a missing one if ``cycles`` is a reason code."""
    if isinstance(cycles, str):
        return {"missing": {"code": cycles, "message": "as the test wants it"}}
    cycles *= random.gauss(1.0, 1e-4)
    mhz = random.gauss(1700.0, 2.0)
    return {
        "ms": cycles / mhz * 1e3,
        "megacycles": cycles,
        "mhz": mhz,
        "kept": 13,
        "dropped": 0,
        "batched": False,
        "seconds": 0.3,
    }


def wait_for(file: str | None) -> None:
    parent = os.getppid()
    while file and not Path(file).exists() and os.getppid() == parent:
        time.sleep(0.01)


def say(result: Path, content: dict, data: bytes, **state: object) -> None:
    bound = {"schema": "result-v1", "kind": content["kind"], "nonce": content["nonce"], "job": hashlib.sha256(data).hexdigest()}
    environment = {"torch": os.environ.get("FAKE_TORCH", "2.11"), "device": "NVIDIA H200", "multiprocessors": 132, "l2": 62914560}
    temporary = result.with_suffix(".new")
    temporary.write_text(json.dumps({**bound, "environment": environment, **state}), encoding="utf-8")
    temporary.replace(result)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
