"""Stand in for the worker's interpreter: describe subjects with the real worker, and replay everything else."""

# ruff: noqa: PTH105, PTH110, PTH123 - as replay.py

from __future__ import annotations

import json
import os
import signal
import sys
import time

import replay

try:
    from _sha2 import sha256  # hashlib loads OpenSSL
except ImportError:
    from _sha256 import sha256  # until Python 3.11

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOOLS = ("compute-sanitizer", "ncu")


def main(argv: list[str]) -> int:
    if argv[1:2] == ["-P"]:  # it has no torch to import, so each child is a program of its own
        return 1
    if argv[1:3] != replay.WORKER or len(argv) != 5:
        replay.unknown(f"called with {argv[1:]}")
    job, result = argv[3:]
    content = json.loads(replay.read(job))
    if content["kind"] == "describe":
        return describe(job, result, argv[1:])
    replay.note_pid()
    replay.time_tool()
    if replay.recording().get("daemons"):
        daemonize()
    process = replay.process_of(job)
    write(result, job, process, {"environment": {}, "started": None, "finished": False, "outcomes": {}})
    if any(os.path.exists(f"{replay.FOLDER}/{name}") for name in ("lost", f"lost-{os.environ.get('CUDA_VISIBLE_DEVICES')}")):
        return lost(result, job, process, "probe" if content["kind"] == "probe" else None)
    if "go" in content["options"]:
        replay.wait_for(content["options"]["go"])
    if "waits_for" in process:
        if process.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        touch("waiting")
        replay.wait_for(process["waits_for"])
    if process.get("loses_the_gpu"):
        touch("lost")
        return lost(result, job, process, content["workloads"][-1]["id"])
    write(result, job, process, process["result"])
    return end(process)


def describe(job: str, result: str, arguments: list[str]) -> int:
    """Let the real worker answer. Its answer to an equal job about equal files is repeated: that takes it 2 s."""
    if "TIMED" in os.environ:  # what it costs to know and keep an answer is not the tool's
        os.execv(sys.executable, [sys.executable, *arguments])
    data = replay.read(job)
    content = json.loads(data)
    bound = {"nonce": content.pop("nonce"), "job": sha256(data).hexdigest()}
    known = f"{os.environ['DESCRIBED']}/{digest_of(content)}"
    if os.path.exists(known):
        answer = json.loads(replay.read(known))
        save(result, json.dumps({**answer, **bound}))
        return 0
    status = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, *arguments])
    if status == 0:
        save(known, replay.read(result).decode())
    return status


def digest_of(content: dict[str, Any]) -> str:
    """Digest a job and every file that its subjects could read."""
    digest = sha256(json.dumps(content).encode())
    for folder, folders, names in os.walk(f"{content['root']}/kernel"):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            data = replay.read(f"{folder}/{name}")
            digest.update(f"{folder}/{name} {len(data)} ".encode() + data)
    return digest.hexdigest()


def save(file: str, text: str) -> None:
    temporary = f"{file}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as opened:
        opened.write(text)
    os.replace(temporary, file)


def touch(name: str) -> None:
    with open(f"{replay.FOLDER}/{name}", "ab"):
        pass


def daemonize() -> None:
    """Leave a process behind that has another session and another parent, and is deaf."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(600)
        os._exit(0)


def lost(result: str, job: str, process: dict[str, Any], started: str | None) -> int:
    """Die as a worker does on a GPU that has fallen off the bus, with ``started`` in flight."""
    write(result, job, process, {"environment": {}, "started": started, "finished": False, "outcomes": {}})
    sys.stderr.write("RuntimeError: CUDA error: unspecified launch failure\n")
    return 1


def write(result: str, job: str, process: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Replace the result file atomically, with the fault that a test wants."""
    data, fault = replay.read(job), process.get("fault")
    content = json.loads(data)
    bound = {"kind": content["kind"], "nonce": content["nonce"], "job": sha256(data).hexdigest()}
    if fault == "another job":
        bound["nonce"] = bound["nonce"][::-1]
    text = json.dumps({"schema": "result-v1", **bound, **outcome})
    temporary = f"{result.rpartition('.')[0]}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text[: len(text) // 2] if fault == "half a result" else text)
    if fault == "old":
        os.utime(temporary, (1, 1))
    os.replace(temporary, result)


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
