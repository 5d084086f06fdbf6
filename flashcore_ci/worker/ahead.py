"""Make CUDA contexts before the start signal, while correctness uses the GPU, and read what comes with the signal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashcore_ci.model import strict_json
from flashcore_ci.worker.guard import POLL_SECONDS
from flashcore_ci.worker.job import Job


def make(job: Job, is_ready: Callable[[], bool], contexts: Callable[[], None]) -> None:
    """Call ``contexts`` when all is ready for it, if the job allows that. Nothing is made after ``hold``: a neighbour may measure.

    Who holds waits while there is ``making`` without ``made``. Either it sees ``making``, or this process sees ``hold``.
    """
    if not job.options.get("ahead"):
        return
    signal = Path(job.options["go"])
    hold, making, made = (signal.with_name(f"{signal.name}.{word}") for word in ("hold", "making", "made"))
    while not is_ready():
        if hold.exists() or signal.exists():
            return
        time.sleep(POLL_SECONDS)
    making.touch()
    if not hold.exists():
        with contextlib.suppress(RuntimeError):  # it is raised again after the signal
            contexts()
    made.touch()


def hints(job: Job) -> dict[str, dict[str, Any]]:
    """Return what an earlier process chose for each workload."""
    text = Path(job.options["go"]).read_bytes() if "go" in job.options else b""
    return strict_json.loads(text) if text else {}
