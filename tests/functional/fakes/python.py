"""Stand in for the worker's interpreter: describe subjects with the real worker, and replay everything else."""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import replay

TOOLS = ("compute-sanitizer", "ncu")


def main(argv: list[str]) -> int:
    if argv[1:3] != replay.WORKER or len(argv) != 5:
        replay.unknown(f"called with {argv[1:]}")
    job, result = map(Path, argv[3:])
    content = json.loads(job.read_bytes())
    if content["kind"] == "describe":
        os.execv(sys.executable, [sys.executable, *argv[1:]])
    replay.note_pid()
    if replay.recording().get("daemons"):
        daemonize()
    process = replay.process_of(job)
    write(result, job, process, {"environment": {}, "started": None, "finished": False, "outcomes": {}})
    if any((replay.FOLDER / name).exists() for name in ("lost", f"lost-{os.environ.get('CUDA_VISIBLE_DEVICES')}")):
        return lost(result, job, process, "probe" if content["kind"] == "probe" else None)
    if "go" in content["options"]:
        replay.wait_for(Path(content["options"]["go"]))
    if "waits_for" in process:
        if process.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (replay.FOLDER / "waiting").touch()
        replay.wait_for(Path(process["waits_for"]))
    if process.get("loses_the_gpu"):
        (replay.FOLDER / "lost").touch()
        return lost(result, job, process, content["workloads"][-1]["id"])
    write(result, job, process, process["result"])
    return end(process)


def daemonize() -> None:
    """Leave a process behind that has another session and another parent, and is deaf."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(600)
        os._exit(0)


def lost(result: Path, job: Path, process: dict[str, Any], started: str | None) -> int:
    """Die as a worker does on a GPU that has fallen off the bus, with ``started`` in flight."""
    write(result, job, process, {"environment": {}, "started": started, "finished": False, "outcomes": {}})
    sys.stderr.write("RuntimeError: CUDA error: unspecified launch failure\n")
    return 1


def write(result: Path, job: Path, process: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Replace the result file atomically, with the fault that a test wants."""
    data, fault = job.read_bytes(), process.get("fault")
    content = json.loads(data)
    bound = {"kind": content["kind"], "nonce": content["nonce"], "job": hashlib.sha256(data).hexdigest()}
    if fault == "another job":
        bound["nonce"] = bound["nonce"][::-1]
    text = json.dumps({"schema": "result-v1", **bound, **outcome})
    temporary = result.with_suffix(".new")
    temporary.write_text(text[: len(text) // 2] if fault == "half a result" else text)
    if fault == "old":
        os.utime(temporary, (1, 1))
    temporary.replace(result)


def end(process: dict[str, Any]) -> int:
    """End as the recorded process did. One that was killed waits to be killed."""
    under_tool = process["argv"] is not None and process["argv"][0] in TOOLS
    if under_tool:
        status = process.get("worker_status", 0 if process["result"]["finished"] else 3)
    else:
        status = process["exit_status"]
        sys.stdout.write(process["out"])
        sys.stderr.write(process["err"])
    if process["timed_out"]:
        time.sleep(600)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv))
