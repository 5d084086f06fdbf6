"""Run one worker process, and read its result without trusting it."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import flashcore_ci
from flashcore_ci.adapters import clock, process
from flashcore_ci.adapters.process import Completed
from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import loads, shorten
from flashcore_ci.collect.start_signal import StartSignal
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import InterruptedRunError
from flashcore_ci.model.evidence import Isolation
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Workload

FOREVER = 7 * 86_400.0  # for a worker whose time limit begins with a signal
MAX_WORD = 80  # characters
MAX_GRAPH_LAUNCHES = 1000
MTIME_LAG = 0.1  # seconds by which a file's time may lag behind the clock

EXCEPTION = re.compile(r"(what\(\): |[\w.]*(Error|Exception|Exit|Interrupt)\b)")
TOOL_LINE = re.compile(r"==\w+==|=====")
PYTHON_VARIABLES = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
IMPORTED = ("torch", "flashcore_ci.worker.correctness", "flashcore_ci.worker.probe")
"""What workers that may be forks have imported. None of it starts CUDA, or imports a subject."""
DEATHS = frozenset({Code.CRASH, Code.HANG, Code.RANK_DIED, Code.RANK_HUNG})
STOPPED = Missing(code=Code.INTERRUPTED, message="the run was stopped")

Wrap = Callable[[tuple[str, ...]], tuple[str, ...]]
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job for one worker.

    ``permitted`` are exit statuses, ``wrap`` adds a tool, ``should_stop`` ends it early. ``imported``: it may be a fork of a process
    that has imported torch, because its variables concern only CUDA.
    """

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
    should_stop: Callable[[], bool] = bool
    imported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """How a worker ended: ``failure``, and what was ``in_flight`` at that time."""

    outcomes: dict[str, dict[str, Any]]
    environment: dict[str, Any]
    in_flight: str | None
    failure: Missing | None
    completed: Completed | None
    result_file: Path


def run(spec: JobSpec, start: StartSignal | None = None) -> JobResult:
    """Run the worker on ``spec``. It never raises for what the worker does."""
    folder = spec.scratch / f"{next(_numbers):03d}-{spec.name}"
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return _without_outcomes(Missing(code=Code.TOOL_FAILED, message=f"{folder} exists: a child made it"), None, folder)
    job_file, result_file = folder / "job.json", folder / "result.json"
    nonce = secrets.token_hex(16)
    data = _job_json(spec, nonce, start)
    job_file.write_bytes(data)
    command = (str(spec.python), "-m", "flashcore_ci.worker", str(job_file), str(result_file))
    began, since = clock.wall(), clock.monotonic()
    try:
        completed = process.run(
            command if spec.wrap is None else spec.wrap(command),
            logs=folder,
            name="worker",
            timeout=spec.seconds if start is None else FOREVER,
            cwd=spec.root,
            env=process.without_secrets(os.environ),
            variables={**_python_variables(spec.scratch), **spec.variables},
            imported=spec.imported,
            should_stop=spec.should_stop if start is None else start.expired,
        )
    except InterruptedRunError:
        return _without_outcomes(STOPPED, None, result_file)
    _record_end(folder / "ended.json", completed)
    if start is not None and start.cancelled:
        return _without_outcomes(STOPPED, completed, result_file)
    set_back = min(0.0, (clock.wall() - began) - (clock.monotonic() - since))  # the wall clock may have been set back meanwhile
    content = read_result(result_file, kind=spec.kind, nonce=nonce, job=hashlib.sha256(data).hexdigest(), began=began + set_back)
    return interpret(spec, completed, content, result_file)


def interpret(spec: JobSpec, completed: Completed, content: dict[str, Any] | Missing, result_file: Path) -> JobResult:
    """Combine how a worker ended with what it wrote, unless it died after that."""
    if isinstance(content, Missing):
        return _without_outcomes(_startup_failure(spec, completed) or content, completed, result_file)
    failure = _failure(spec, completed, finished=content["finished"])
    failure = unless_stopped(failure) if failure is not None else None
    if failure is not None and failure.code in DEATHS and content["started"] is None and not content["outcomes"]:
        failure = Missing(code=Code.TOOL_FAILED, message=f"before any workload began, {failure.message}")
    died_late = failure is not None and content["finished"]
    return JobResult(
        outcomes={} if died_late else content["outcomes"],
        environment=content["environment"],
        in_flight=content["started"],
        failure=failure,
        completed=completed,
        result_file=result_file,
    )


def read_result(path: Path, *, kind: str, nonce: str, job: str, began: float) -> dict[str, Any] | Missing:
    """Read the result bound by ``nonce`` and digest ``job``. Any other is Missing."""
    try:
        written = path.lstat().st_mtime
        content = loads(files.read(path, limit=files.MAX_RECORD, follow=False))
    except FileNotFoundError:
        return Missing(code=Code.INVALID_RESULT, message="the worker wrote no result")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return Missing(code=Code.INVALID_RESULT, message=shorten(f"the worker's result cannot be read: {why}"))
    if written < began - MTIME_LAG:
        return Missing(code=Code.INVALID_RESULT, message="the worker's result is older than the worker")
    expected = {"schema": "result-v1", "kind": kind, "nonce": nonce, "job": job}
    if not isinstance(content, dict) or any(content.get(key) != value for key, value in expected.items()):
        return Missing(code=Code.INVALID_RESULT, message="the worker's result is for another job")
    shape = {"outcomes": dict, "environment": dict, "finished": bool}
    if not all(isinstance(content.get(key), expected_type) for key, expected_type in shape.items()) or "started" not in content:
        return Missing(code=Code.INVALID_RESULT, message="the worker's result is incomplete")
    return {**content, "outcomes": {name: _checked_outcome(outcome) for name, outcome in content["outcomes"].items()}}


def _checked_outcome(outcome: Any) -> dict[str, Any]:
    """Return the outcome, or a missing one: subjects may write anything."""
    if not isinstance(outcome, dict):
        wrong = ["outcome"]
    else:
        wrong = [name for name, is_valid in OUTCOME.items() if name in outcome and not is_valid(outcome[name])]
    if not wrong:
        return dict(outcome)
    return {"missing": {"code": Code.INVALID_RESULT, "message": f"the worker wrote an invalid {wrong[0]}"}}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value in {"nan", "inf", "-inf"})


def _are_masks(value: Any) -> bool:
    return isinstance(value, dict) and all(re.fullmatch(r"0x[0-9a-f]{1,16}", mask) for mask in value)


def _is_isolation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {field.name for field in fields(Isolation)}
        and all(isinstance(word, str) and len(word) <= MAX_WORD for word in value.values())
    )


def isolation_of(results: Iterable[Mapping[str, Any]]) -> Isolation | None:
    """Return the isolation that all results share, or None if one has another or none."""
    found = {Isolation(**result["isolation"]) if "isolation" in result else None for result in results}
    return found.pop() if len(found) == 1 else None


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


OUTCOME: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("seconds", "kept", "dropped"), lambda value: isinstance(value, int | float) and math.isfinite(value)),
    **dict.fromkeys(("ms", "megacycles", "mhz", "std_percent", "watts", "celsius", "gbps", "speedup"), _is_number),
    "readings": _is(dict),
    **dict.fromkeys(("notes", "problems", "cases"), _is(list)),
    "reasons": _are_masks,
    "batched": _is(bool),
    "sets": _is(int),
    "graph_launches": lambda value: type(value) is int and 0 < value <= MAX_GRAPH_LAUNCHES,
    "isolation": _is_isolation,
    **dict.fromkeys(("launches", "cubins", "libraries"), lambda value: isinstance(value, list | int)),
    "choices": lambda value: isinstance(value, dict) and all(isinstance(chosen, dict) for chosen in value.values()),
}
"""How to check the known values of an outcome. All are optional."""


def _without_outcomes(failure: Missing, completed: Completed | None, result_file: Path) -> JobResult:
    return JobResult(outcomes={}, environment={}, in_flight=None, failure=failure, completed=completed, result_file=result_file)


def _failure(spec: JobSpec, completed: Completed, *, finished: bool) -> Missing | None:
    if completed.timed_out:
        return Missing(code=Code.HANG, message=f"did not end within {spec.seconds:.0f} s")
    if completed.flooded:
        return Missing(code=Code.CRASH, message=f"the worker was killed: it printed more than {process.MAX_OUTPUT >> 20} MiB")
    if completed.returncode < 0:
        return Missing(code=Code.CRASH, message=f"the worker was killed by {completed.signal_name}")
    if not finished:
        message = f"the worker ended early, exit status {completed.returncode}: {_last_error(completed)}"
        return Missing(code=Code.CRASH, message=message)
    if completed.returncode not in spec.permitted:
        code = Code.CRASH if spec.wrap is None else Code.TOOL_FAILED
        return Missing(code=code, message=f"exit status {completed.returncode} after the work was done: {_last_error(completed)}")
    return None


def _startup_failure(spec: JobSpec, completed: Completed) -> Missing | None:
    if process.stopping():
        return STOPPED
    if not completed.timed_out and completed.returncode == 0:
        return None
    why = f" within {spec.seconds:.0f} s" if completed.timed_out else f": {_last_error(completed)}"
    return Missing(code=Code.TOOL_FAILED, message=f"the worker did not start{why}")


def _record_end(path: Path, completed: Completed) -> None:
    end = {"argv": completed.argv, "exit_status": completed.returncode, "timed_out": completed.timed_out}
    end["seconds"] = round(completed.seconds, 3)
    path.write_text(json.dumps(end, indent=1), encoding="utf-8")


def _last_error(completed: Completed) -> str:
    lines = [line.strip() for line in completed.last_lines() if line.strip() and not TOOL_LINE.match(line)]
    exceptions = [line for line in lines if EXCEPTION.match(line)]
    return (exceptions or lines or ["it printed nothing"])[-1][:300]


def _job_json(spec: JobSpec, nonce: str, start: StartSignal | None) -> bytes:
    content = {
        "schema": "job-v1",
        "kind": spec.kind,
        "nonce": nonce,
        "root": str(spec.root),
        "repository": str(Path.cwd()),
        "subjects": spec.subjects,
        "workloads": [{"id": w.id, "subject": w.subject, "params": dict(w.params), "seed": w.seed} for w in spec.workloads],
        "options": {**spec.options, **({} if start is None else {"go": str(start.file)})},
    }
    return json.dumps(content, indent=1, allow_nan=False).encode()


def unless_stopped(missing: Missing) -> Missing:
    """Return the reason, or "interrupted" if the run is being stopped."""
    return STOPPED if process.stopping() else missing


def missing_from(outcome: Mapping[str, Any]) -> Missing | None:
    """Return why an outcome is missing, or None. An unknown code is an invalid result."""
    reason = outcome.get("missing")
    if reason is None:
        return None
    try:
        return Missing(code=Code(reason["code"]), message=shorten(str(reason["message"])))
    except (KeyError, TypeError, ValueError):
        return Missing(code=Code.INVALID_RESULT, message="the worker reported an unknown reason code")


@contextlib.contextmanager
def importing(python: Path, scratch: Path) -> Iterator[None]:
    """Import torch once, meanwhile, for all workers of ``python`` that may be forks."""
    with process.importing(python, IMPORTED, {**process.without_secrets(os.environ), **_python_variables(scratch)}):
        yield


def _python_variables(scratch: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(import_folder(scratch)), **PYTHON_VARIABLES}


def import_folder(scratch: Path) -> Path:
    """Return a folder with only this package. Threads may share it."""
    folder = scratch / "import"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "flashcore_ci").symlink_to(Path(flashcore_ci.__file__).resolve().parent, target_is_directory=True)
    return folder
