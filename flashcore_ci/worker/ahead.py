"""Signals of a timing process: start CUDA before the first one, measure alone, and end after the last process has measured."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

from flashcore_ci.model import strict_json
from flashcore_ci.worker import guard
from flashcore_ci.worker.job import Job, Result

MAX_KEPT = 0.04
"""Part of the GPU's memory that a process may keep which waits for the last one."""


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


def say_done(job: Job, result: Result) -> None:
    """Tell the collector that all was measured, and what in graphs, if nothing failed. The next process may start CUDA then.

    A process that may stay, and has little memory, ends after the last one has measured: its end would disturb those.
    """
    if "go" not in job.options or any("missing" in outcome for outcome in result.content["outcomes"].values()):
        return
    stays = bool(job.options.get("stays")) and _return_memory() <= MAX_KEPT
    if stays:
        _beside(job, "stays").touch()
    outcomes = result.content["outcomes"]
    unseen = _beside(job, "unseen")
    unseen.write_text(json.dumps({name: of["batched"] for name, of in outcomes.items() if "batched" in of}), encoding="utf-8")
    unseen.replace(_beside(job, "done"))
    if stays:
        guard.wait_for(_beside(job, "end"))


def _return_memory() -> float:
    """Return unused memory to the driver, and the part of the GPU's that is left."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()
    return float(torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory)


def hints(job: Job) -> dict[str, dict[str, Any]]:
    """Return what an earlier process chose for each workload."""
    text = Path(job.options["go"]).read_bytes() if "go" in job.options else b""
    found: dict[str, dict[str, Any]] = strict_json.loads(text) if text else {}
    return found


def _beside(job: Job, word: str) -> Path:
    signal = Path(job.options["go"])
    return signal.with_name(f"{signal.name}.{word}")
