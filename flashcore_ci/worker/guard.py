"""Around each workload: what it raises becomes an outcome, and a lost CUDA context ends the job."""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.worker.job import Job, Result, Work, missing
from flashcore_ci.worker.subject_file import last_line

Action = Callable[[Work], dict[str, Any]]
POLL_SECONDS = 0.005
WAIT_SECONDS = 900.0
NO_MEMORY = ("out of memory", "ALLOC_FAILED")
"""As the driver, a launcher and cuBLAS say it: PyTorch raises its own kind of error for its own allocator alone."""


def each(job: Job, result: Result, action: Action, *, spare: float = 0.0) -> bool:
    """Do ``action`` on every workload. False when the CUDA context died: the rest then needs another process.

    In between, memory goes back to the driver, which takes its time; where ``spare`` (of 1) of it is unused, it is left alone.
    """
    import torch

    for work in job.workloads:
        result.start(work.id)
        began = time.monotonic()
        outcome = attempt(work, action)
        if "missing" not in outcome and (stranger := undeclared(job)):
            outcome = missing(
                Code.RAISED, f"imports {stranger}, which build() does not name in binding: its changes would go unseen"
            )
        lost = context_lost()
        if lost:
            outcome = missing(Code.CRASH, lost)
        outcome["seconds"] = round(time.monotonic() - began, 3)
        result.finish(work.id, outcome)
        if lost:
            return False
        used = torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory
        if used > 1.0 - spare or not spare:
            gc.collect()
            gc.freeze()  # what is left came with imports: looking it through after every workload took a tenth of a second each time
            torch.cuda.empty_cache()
    return True


def attempt(work: Work, action: Action) -> dict[str, Any]:
    """The action's outcome; an exception is one too."""
    import torch

    try:
        return action(work)
    except torch.cuda.OutOfMemoryError as error:
        return missing(Code.OUT_OF_MEMORY, last_line(error))
    except Exception as error:  # noqa: BLE001 - a subject may raise anything
        text = last_line(error)
        return missing(Code.OUT_OF_MEMORY if any(words in text for words in NO_MEMORY) else Code.RAISED, text)


def undeclared(job: Job) -> str:
    """A Python file of the checkout that was imported and that no subject of the job names; empty if there is none.

    ``job.options["python"]`` lists those that count; None where digests bind no evidence anyway.
    """
    declared = job.options.get("python")
    if declared is None:
        return ""
    known = {_resolved(str(job.root / file)) for file in declared}
    files = {getattr(module, "__file__", None) or "" for module in tuple(sys.modules.values())}
    root, others = _resolved(str(job.root)), (_resolved(sys.prefix), _resolved(__file__).parents[1])
    loaded = {_resolved(file) for file in files if file.startswith("/")}  # torch has modules with made-up names
    strangers = {
        path for path in loaded - known if path.is_relative_to(root) and not any(path.is_relative_to(other) for other in others)
    }
    return min((path.relative_to(root).as_posix() for path in strangers), default="")


@functools.cache
def _resolved(file: str) -> Path:
    """Asked of thousands of files after every workload."""
    return Path(file).resolve()


def context_lost() -> str:
    """Why the CUDA context cannot be used any more, in one line; empty while it can."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return last_line(error)
    return ""


def begin(job: Job, result: Result) -> None:
    """Import torch, wait for the parent's word if the job names a file for it, then say what machine this is.

    The GPU is not touched before that word: this process starts while another is measuring.
    """
    import torch

    go = job.options.get("go")
    if go is not None:
        wait_for(Path(go))
    properties = torch.cuda.get_device_properties(0)
    result.environment(
        torch=torch.__version__,
        device=properties.name,
        multiprocessors=properties.multi_processor_count,
        l2=properties.L2_cache_size,
    )


def wait_for(path: Path) -> None:
    """Wait until the file exists. TimeoutError when nobody is left to make it: the parent died, or a quarter of an hour went by."""
    deadline, parent = time.monotonic() + WAIT_SECONDS, os.getppid()
    while not path.exists():
        if time.monotonic() > deadline or os.getppid() != parent:
            raise TimeoutError(f"{path} never came")
        time.sleep(POLL_SECONDS)
