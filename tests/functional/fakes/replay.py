"""Replay a recording, for all fake tools. What was not recorded ends with an error.

``RECORDING`` names a folder with the run's ``artifacts`` and ``recording.json``, written by ``tools/study/record_run.py`` and perhaps
changed by a test. The fakes record their processes in ``pids``, and what is missing in ``unknown``. A test fails if it leaves
an ``unknown`` file.

A test starts a hundred of them, so they import little: no ``pathlib``, no ``subprocess``.
"""

# ruff: noqa: PTH110, PTH119, PTH120, PTH123 - pathlib takes as long as a fake's work

from __future__ import annotations

import atexit
import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FOLDER = os.environ["RECORDING"]
WORKER = ["-m", "flashcore_ci.worker"]
UNKNOWN = 97
CONTROL_STATUS = 86
TOOLS = {"launch": "compute-sanitizer", "control": "compute-sanitizer", "profile": "ncu"}
_read: list[dict[str, Any]] = []


def recording() -> dict[str, Any]:
    if not _read:
        _read.append(json.loads(read(f"{FOLDER}/recording.json")))
    return _read[0]


def read(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()


def copy(file: str, target: str) -> None:
    with open(target, "wb") as opened:
        opened.write(read(file))


def unknown(message: str) -> NoReturn:
    """End: the recording does not hold what a real tool does here."""
    fake = os.path.basename(sys.argv[0]).removesuffix(".py")
    with open(f"{FOLDER}/unknown", "a", encoding="utf-8") as file:
        file.write(f"{fake}: {message}\n")
    sys.stderr.write(f"fake {fake}: {message}\n")
    sys.exit(UNKNOWN)


def note_pid() -> None:
    with open(f"{FOLDER}/pids", "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")


def time_tool() -> None:
    """Note CPU seconds now and at the end, if a process ``TIMED`` started the tool: those of this process, and those before it."""
    if "TIMED" in os.environ:
        note_times()
        atexit.register(note_times)


def note_times() -> None:
    pid, seconds = os.getppid(), 0.0
    while str(pid) != os.environ["TIMED"]:
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        pid = int(fields[1])
    with open(f"{FOLDER}/times", "a", encoding="ascii") as file:
        file.write(f"{seconds} {time.process_time()}\n")


def process_of(job: str) -> dict[str, Any]:
    """Return the recorded process with this job's name and workloads."""
    name = os.path.basename(os.path.dirname(job)).partition("-")[2]
    content = json.loads(read(job))
    workloads = {workload["id"] for workload in content["workloads"]}
    if "outcomes" in recording():
        return made_of_outcomes(name, content["kind"], workloads)
    known = [process for process in recording()["processes"] if process["name"] == name]
    for process in known:
        if set(process["workloads"]) == workloads:
            return process
    for process in known:
        if process["argv"] is None and workloads < set(process["workloads"]) and os.environ.get("FAKE_GPUS"):
            return part(process, workloads)
    for process in known:
        if len(workloads) == 1 and workloads <= set(process["result"]["outcomes"]):
            return alone(process, *workloads)
    unknown(f"no recording of {name} on {sorted(workloads)}")


def alone(process: dict[str, Any], workload: str) -> dict[str, Any]:
    """Return one workload of a recorded process as its own process, without a tool's command line."""
    outcome = process["result"]["outcomes"][workload]
    lost = outcome.get("missing", {}).get("code") == "crash"
    result = {**process["result"], "outcomes": {workload: outcome}, "started": None, "finished": not lost}
    return {**process, "result": result, "argv": None, "exit_status": 3 if lost else 0, "timed_out": False}


def part(process: dict[str, Any], workloads: set[str]) -> dict[str, Any]:
    """Return some workloads of a recorded process as a process of one shard."""
    outcomes = {name: outcome for name, outcome in process["result"]["outcomes"].items() if name in workloads}
    return {**process, "result": {**process["result"], "outcomes": outcomes}}


def made_of_outcomes(name: str, kind: str, workloads: set[str]) -> dict[str, Any]:
    """Return a process that ended well, whatever it is asked. ``outcomes`` are by a process's name or a job's kind."""
    files = (f"{FOLDER}/outcomes/{each}.json" for each in (name, kind))  # one file for each: all take 0.2 s to decode
    known = json.loads(read(next(filter(os.path.exists, files))))
    outcomes = {workload: known.get(workload, next(iter(known.values()))) for workload in workloads}
    return {
        "name": name,
        "argv": [TOOLS[kind]] if kind in TOOLS else None,
        "exit_status": CONTROL_STATUS if kind == "control" else 0,
        "worker_status": 0,
        "timed_out": False,
        "out": "",
        "err": "",
        "result": {"environment": recording()["environment"], "started": None, "finished": True, "outcomes": outcomes},
    }


def wrapped(argv: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the recorded process for ``argv`` and the worker's command line. Other options are unknown."""
    options, command = argv[1:-5], argv[-5:]
    if command[1:3] != WORKER:
        unknown(f"called with {argv[1:]}")
    process = process_of(command[3])
    if "outcomes" in recording():
        return process, command
    if process["argv"] is None:
        unknown(f"{process['name']} was never recorded on one of these workloads alone")
    recorded_options = process["argv"][1:-5]
    given = [part.rstrip("/").rpartition("/")[2] if part.startswith("/") else part for part in options]
    if given != recorded_options:
        unknown(f"called with {sorted(set(given) ^ set(recorded_options)) or given}, unlike the recording")
    return process, command


def run_worker(command: list[str]) -> int:
    """Run the fake worker as a child: a fork, which starts twice as fast. Return its status as ``subprocess`` does."""
    if os.path.realpath(command[0]) != os.path.realpath(os.environ["FLASHCORE_CI_PYTHON"]):
        unknown(f"a tool runs {command[0]}, not the worker's interpreter")
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        import python

        sys.argv = ["python.py", *command[1:]]
        sys.exit(python.main(sys.argv))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def value(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def make_noise(process: dict[str, Any]) -> None:
    """Write as many undecodable megabytes to standard output and error as a test wants."""
    chunk = b"\xff\xfe\x00 ========= \xed\xa0\x80 \x1b[31m\r\n" * 50_000
    for _ in range(process.get("megabytes", 0)):
        for stream in (sys.stdout, sys.stderr):
            stream.buffer.write(chunk[: 1 << 20])


def say_version(tool: str) -> NoReturn:
    sys.stdout.write(recording()["versions"][tool])
    sys.exit(0)


def wait_for(file: str) -> None:
    parent = os.getppid()
    while not os.path.exists(file) and os.getppid() == parent:
        time.sleep(0.005)
