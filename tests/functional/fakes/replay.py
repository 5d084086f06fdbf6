"""What the fake tools share: the recording that they repeat, and the loud end of whatever it does not hold.

``RECORDING`` names a folder with ``recording.json`` (written by ``tools/study/record_run.py``; a test may have altered it) and the
run's ``artifacts``. The fakes note there who started (``pids``), and what nobody recorded (``unknown``): a test that leaves an
``unknown`` behind fails.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

FOLDER = Path(os.environ["RECORDING"])
WORKER = ["-m", "flashcore_ci.worker"]
UNKNOWN = 97


def recording() -> dict[str, Any]:
    return json.loads((FOLDER / "recording.json").read_bytes())


def unknown(message: str) -> NoReturn:
    """Nobody recorded what a real tool does here."""
    with (FOLDER / "unknown").open("a", encoding="utf-8") as file:
        file.write(f"{Path(sys.argv[0]).stem}: {message}\n")
    sys.stderr.write(f"fake {Path(sys.argv[0]).stem}: {message}\n")
    sys.exit(UNKNOWN)


def note_pid() -> None:
    with (FOLDER / "pids").open("a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")


def process_of(job: Path) -> dict[str, Any]:
    """What was recorded of the process with this job: by the name of its folder and the workloads in it."""
    name = job.parent.name.partition("-")[2]
    workloads = {workload["id"] for workload in json.loads(job.read_bytes())["workloads"]}
    known = [process for process in recording()["processes"] if process["name"] == name]
    for process in known:
        if set(process["workloads"]) == workloads:
            return process
    for process in known:
        if len(workloads) == 1 and workloads <= set(process["result"]["outcomes"]):
            return alone(process, *workloads)
    unknown(f"no recording of {name} on {sorted(workloads)}")


def alone(process: dict[str, Any], workload: str) -> dict[str, Any]:
    """One workload of a process that had several, as a process of its own; no tool's command line was recorded for that."""
    outcome = process["result"]["outcomes"][workload]
    lost = outcome.get("missing", {}).get("code") == "crash"
    result = {**process["result"], "outcomes": {workload: outcome}, "started": None, "finished": not lost}
    return {**process, "result": result, "argv": None, "exit_status": 3 if lost else 0, "timed_out": False}


def wrapped(argv: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The recorded process for a tool called with ``argv``, and the worker's command line. Other options than then are unknown."""
    options, command = argv[1:-5], argv[-5:]
    if command[1:3] != WORKER:
        unknown(f"called with {argv[1:]}")
    process = process_of(Path(command[3]))
    if process["argv"] is None:
        unknown(f"{process['name']} was never recorded on one of these workloads alone")
    then, now = process["argv"][1:-5], [Path(part).name if part.startswith("/") else part for part in options]
    if now != then:
        unknown(f"called with {sorted(set(now) ^ set(then)) or now}, which is not how it was called when it was recorded")
    return process, command


def value(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def make_noise(process: dict[str, Any]) -> None:
    """As many megabytes on standard output and error as a test asks for, in no encoding."""
    chunk = b"\xff\xfe\x00 ========= \xed\xa0\x80 \x1b[31m\r\n" * 50_000
    for _ in range(process.get("megabytes", 0)):
        for stream in (sys.stdout, sys.stderr):
            stream.buffer.write(chunk[: 1 << 20])


def say_version(tool: str) -> NoReturn:
    sys.stdout.write(recording()["versions"][tool])
    sys.exit(0)


def wait_for(file: Path) -> None:
    parent = os.getppid()
    while not file.exists() and os.getppid() == parent:
        time.sleep(0.005)
