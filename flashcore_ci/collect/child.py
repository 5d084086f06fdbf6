"""One worker process: its job, its deadline, its result read with suspicion."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import clock, process
from flashcore_ci.adapters.process import Completed
from flashcore_ci.collect.session import import_folder
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import InterruptedRunError
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Workload

WAIT_FOR_GO = 900.0
OLDER = 0.1  # seconds by which a file's time may lag behind the clock

EXCEPTION = re.compile(r"(what\(\): |[\w.]*(Error|Exception|Exit|Interrupt)\b)")
TOOL_LINE = re.compile(r"==\w+==|=====")
DEATHS = frozenset({Code.CRASH, Code.HANG})
STOPPED = Missing(code=Code.INTERRUPTED, message="the run was stopped")

Wrap = Callable[[tuple[str, ...]], tuple[str, ...]]
_numbers = itertools.count()


class Go:
    """The word on which a child that has started may touch the GPU; its time starts to count with it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cancelled = False
        self._deadline: float | None = None

    def say(self, seconds: float) -> None:
        """Now, and for so many seconds."""
        self._deadline = clock.monotonic() + seconds
        self.file.touch()

    def never(self) -> None:
        """The child is not needed any more."""
        self.cancelled = True
        self._deadline = 0.0

    def over(self) -> bool:
        """Whether its time is up."""
        return self._deadline is not None and clock.monotonic() > self._deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A job for one process. ``subjects`` as ``Session.subjects`` gives them; ``permitted`` are exit statuses that say nothing bad."""

    kind: str
    name: str
    python: Path
    root: Path
    scratch: Path
    seconds: float
    subjects: tuple[dict[str, Any], ...]
    workloads: tuple[Workload, ...]
    options: dict[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    permitted: frozenset[int] = frozenset({0})
    wrap: Wrap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it ended. ``fault`` is None when the job was done to its end; ``in_flight`` is what had begun and not ended."""

    outcomes: dict[str, dict[str, Any]]
    environment: dict[str, Any]
    in_flight: str | None
    fault: Missing | None
    completed: Completed | None
    result: Path


def run(order: Order, go: Go | None = None) -> Ended:
    """Run the worker on ``order``; whatever happens to it comes back as a record."""
    folder = order.scratch / f"{next(_numbers):03d}-{order.name}"
    folder.mkdir(parents=True)
    job, result = folder / "job.json", folder / "result.json"
    nonce = secrets.token_hex(16)
    data = _job(order, nonce, go)
    job.write_bytes(data)
    command = (str(order.python), "-m", "flashcore_ci.worker", str(job), str(result))
    began, since = clock.wall(), clock.monotonic()
    try:
        completed = process.run(
            command if order.wrap is None else order.wrap(command),
            logs=folder,
            name="worker",
            timeout=order.seconds + (0.0 if go is None else WAIT_FOR_GO),
            cwd=order.root,
            variables={
                "PYTHONPATH": str(import_folder(order.scratch)),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONSAFEPATH": "1",
                **order.variables,
            },
            should_stop=None if go is None else go.over,
        )
    except InterruptedRunError:
        return _nothing(STOPPED, None, result)
    _note(folder / "ended.json", completed)
    if go is not None and go.cancelled:
        return _nothing(STOPPED, completed, result)
    set_back = min(0.0, (clock.wall() - began) - (clock.monotonic() - since))  # by which somebody moved the clock meanwhile
    content = read_result(result, kind=order.kind, nonce=nonce, job=hashlib.sha256(data).hexdigest(), began=began + set_back)
    return judge(order, completed, content, result)


def judge(order: Order, completed: Completed, content: dict[str, Any] | Missing, result: Path) -> Ended:
    """What a child's end and its result say together. A result counts for nothing when the child died after writing it."""
    if isinstance(content, Missing):
        return _nothing(_early_death(order, completed) or content, completed, result)
    fault = _fault(order, completed, finished=content["finished"])
    if fault is not None:
        fault = unless_stopped(fault)
    if fault is not None and fault.code in DEATHS and content["started"] is None and not content["outcomes"]:
        fault = Missing(code=Code.TOOL_FAILED, message=f"before any workload began, {fault.message}")
    died_late = fault is not None and content["finished"]
    return Ended(
        outcomes={} if died_late else content["outcomes"],
        environment=content["environment"],
        in_flight=content["started"],
        fault=fault,
        completed=completed,
        result=result,
    )


def read_result(path: Path, *, kind: str, nonce: str, job: str, began: float) -> dict[str, Any] | Missing:
    """The result in ``path`` if it is the answer to this very job; a stale one, another's, or half a one is Missing."""
    try:
        written = path.stat().st_mtime
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Missing(code=Code.INVALID_RESULT, message="the worker left no result")
    except (OSError, ValueError) as error:
        return Missing(code=Code.INVALID_RESULT, message=f"the worker's result cannot be read: {error}")
    if written < began - OLDER:
        return Missing(code=Code.INVALID_RESULT, message="the worker's result is older than its start")
    due = {"schema": "result-v1", "kind": kind, "nonce": nonce, "job": job}
    if not isinstance(content, dict) or any(content.get(key) != value for key, value in due.items()):
        return Missing(code=Code.INVALID_RESULT, message="the result is not the answer to this job")
    shape = {"outcomes": dict, "environment": dict, "finished": bool}
    whole = all(isinstance(content.get(key), wanted) for key, wanted in shape.items()) and "started" in content
    if not whole:
        return Missing(code=Code.INVALID_RESULT, message="the result lacks what a result has")
    return {**content, "outcomes": {name: _outcome(said) for name, said in content["outcomes"].items()}}


def _outcome(said: Any) -> dict[str, Any]:
    """What the worker said of a workload, if it could have: a subject runs in its process, and may write anything."""
    strange = (
        ["outcome"] if not isinstance(said, dict) else [n for n, is_one in OUTCOME.items() if n in said and not is_one(said[n])]
    )
    if not strange:
        return dict(said)
    return {"missing": {"code": Code.INVALID_RESULT, "message": f"the worker gave something that is no {strange[0]}"}}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value in {"nan", "inf", "-inf"})


def _are_masks(value: Any) -> bool:
    return isinstance(value, dict) and all(re.fullmatch(r"0x[0-9a-f]{1,16}", mask) for mask in value)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


OUTCOME: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("seconds", "kept", "dropped"), lambda value: isinstance(value, int | float) and math.isfinite(value)),
    **dict.fromkeys(("ms", "megacycles", "mhz", "std_percent", "watts", "celsius"), _is_number),
    "readings": _is(dict),
    "notes": _is(list),
    "reasons": _are_masks,
    "batched": _is(bool),
    "problems": _is(list),
}
"""What is known of an outcome's values, where they are there."""


def _nothing(fault: Missing, completed: Completed | None, result: Path) -> Ended:
    return Ended(outcomes={}, environment={}, in_flight=None, fault=fault, completed=completed, result=result)


def _fault(order: Order, completed: Completed, *, finished: bool) -> Missing | None:
    if completed.timed_out:
        return Missing(code=Code.HANG, message=f"did not end within {order.seconds:.0f} s")
    if completed.returncode < 0:
        return Missing(code=Code.CRASH, message=f"the worker was killed by {completed.signal_name}")
    if not finished:
        return Missing(code=Code.CRASH, message=f"the worker ended early, exit status {completed.returncode}: {_last(completed)}")
    if completed.returncode not in order.permitted:
        code = Code.CRASH if order.wrap is None else Code.TOOL_FAILED
        return Missing(code=code, message=f"exit status {completed.returncode} after the work was done: {_last(completed)}")
    return None


def _early_death(order: Order, completed: Completed) -> Missing | None:
    """Why there is no usable result, when the way the child ended explains it: no workload had begun, so none is to blame."""
    if process.stopping():
        return STOPPED
    if completed.timed_out:
        return Missing(code=Code.TOOL_FAILED, message=f"the worker did not even start within {order.seconds:.0f} s")
    if completed.returncode != 0:
        return Missing(code=Code.TOOL_FAILED, message=f"the worker did not start: {_last(completed)}")
    return None


def _note(path: Path, completed: Completed) -> None:
    """Keep how the child was started and how it ended, for whoever digs."""
    how = {
        "argv": completed.argv,
        "exit_status": completed.returncode,
        "timed_out": completed.timed_out,
        "seconds": round(completed.seconds, 3),
    }
    path.write_text(json.dumps(how, indent=1), encoding="utf-8")


def _last(completed: Completed) -> str:
    """The line in which the child said why: the last one that reads like an exception, else the last one of its own."""
    text = f"{completed.text()}\n{completed.error_text()}"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not TOOL_LINE.match(line)]
    spoken = [line for line in lines if EXCEPTION.match(line)]
    return (spoken or lines or ["it said nothing"])[-1][:300]


def _job(order: Order, nonce: str, go: Go | None) -> bytes:
    content = {
        "schema": "job-v1",
        "kind": order.kind,
        "nonce": nonce,
        "root": str(order.root),
        "subjects": order.subjects,
        "workloads": [_work(workload) for workload in order.workloads],
        "options": {**order.options, **({} if go is None else {"go": str(go.file)})},
    }
    return json.dumps(content, indent=1, allow_nan=False).encode()


def _work(workload: Workload) -> dict[str, Any]:
    return {"id": workload.id, "subject": workload.subject, "params": dict(workload.params), "seed": workload.seed}


def unless_stopped(missing: Missing) -> Missing:
    """The reason, or that the run was stopped: what ends while it is being stopped was interrupted, not broken."""
    return STOPPED if process.stopping() else missing


def missing_of(outcome: Mapping[str, Any]) -> Missing | None:
    """Why a workload gave no number, if the worker says so. An unknown code is an invalid result."""
    said = outcome.get("missing")
    if said is None:
        return None
    try:
        return Missing(code=Code(said["code"]), message=str(said["message"]))
    except (KeyError, TypeError, ValueError):
        return Missing(code=Code.INVALID_RESULT, message="the worker gave a reason that nobody knows")
