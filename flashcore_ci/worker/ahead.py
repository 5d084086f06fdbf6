"""Start CUDA before the start signal, while correctness uses the GPU, and read the signal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flashcore_ci.model import strict_json
from flashcore_ci.worker import guard
from flashcore_ci.worker.job import Job


def begin(job: Job) -> bool:
    """Tell whether CUDA may start now. Either the gate sees ``making``, or this process sees ``hold``."""
    if not job.options.get("ahead") or "go" not in job.options:
        return False
    _beside(job, "making").touch()
    if not _beside(job, "hold").exists():
        return True
    end(job)
    return False


def end(job: Job) -> None:
    """Say that CUDA has started."""
    _beside(job, "made").touch()


def wait_until_alone(job: Job) -> None:
    """Wait until the process that measured before has ended. TimeoutError."""
    if "go" in job.options:
        guard.wait_for(_beside(job, "clear"))


def hints(job: Job) -> dict[str, dict[str, Any]]:
    """Return what an earlier process chose for each workload."""
    text = Path(job.options["go"]).read_bytes() if "go" in job.options else b""
    found: dict[str, dict[str, Any]] = strict_json.loads(text) if text else {}
    return found


def _beside(job: Job, word: str) -> Path:
    signal = Path(job.options["go"])
    return signal.with_name(f"{signal.name}.{word}")
