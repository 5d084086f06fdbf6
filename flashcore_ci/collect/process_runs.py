"""Time workloads in fresh processes: the process is the unit of statistics."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.collect import isolation
from flashcore_ci.collect.child import JobSpec, StartSignal
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.store.files import write_atomically

WARM_UP_POLLS, POLL_SECONDS = 6000, 0.01
SAMPLE_KEYS = {"time/gpu/cold": "ms", "cycles/gpu/cold": "megacycles", "clock/sm": "mhz"}
"""The worker's key for each sampled metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRun:
    """A process to run. ``number`` seeds its order."""

    name: str
    number: int
    session: Session
    workloads: tuple[Workload, ...]
    options: dict[str, Any] = field(default_factory=dict)


class ProcessRuns:
    """The timing processes. The next may start early."""

    def __init__(self, scratch: Path, processes: int = 2) -> None:
        self._scratch = scratch
        self._signals: dict[str, StartSignal] = {}
        self._pool = ThreadPoolExecutor(processes)
        self._started: dict[str, Future[dict[str, WorkloadResult]]] = {}
        self._cold: dict[str, Path] = {}
        self._sent: set[str] = set()
        self._numbers = itertools.count()

    def start(self, run: ProcessRun, *, warms_up: bool = False) -> None:
        """Start a process that waits for its signal, once. With ``warms_up`` it waits for ``warm_up`` before that."""
        if run.name not in self._started and run.workloads:
            file = self._scratch / f"go-{run.name}-{next(self._numbers)}"
            self._signals[run.name] = StartSignal(file)
            if warms_up:
                self._cold[run.name] = file.with_suffix(".warm")
                run = replace(run, options={**run.options, "warm": str(self._cold[run.name])})
            self._started[run.name] = self._pool.submit(self._run, run)

    def warm_up(self) -> None:
        """Let the processes that were started for it make their CUDA contexts, while nothing is timed."""
        for file in self._cold.values():
            file.touch()
        for _ in range(WARM_UP_POLLS):
            self._cold = {name: file for name, file in self._cold.items() if not self._is_ready(name, file)}
            if not self._cold:
                break
            futures.wait([self._started[name] for name in self._cold], timeout=POLL_SECONDS, return_when=futures.FIRST_COMPLETED)
        self._cold.clear()

    def forget(self) -> None:
        """End the processes that still wait: others will run in their place."""
        for name in self._started.keys() - self._sent:
            self._signals.pop(name).cancel()
            self._started.pop(name).result()

    def finish(self, run: ProcessRun) -> dict[str, WorkloadResult]:
        """Send the signal, and return one result per workload."""
        self.start(run)
        self._sent.add(run.name)
        self._signals[run.name].send(run.session.seconds(Kind.TIMING))
        return {name: require_samples(result) for name, result in self._started[run.name].result().items()}

    def close(self) -> None:
        """End the processes that still wait."""
        for signal in self._signals.values():
            signal.cancel()
        self._pool.shutdown()

    def _is_ready(self, name: str, file: Path) -> bool:
        return self._started[name].done() or file.with_suffix(".ready").exists()

    def _run(self, run: ProcessRun) -> dict[str, WorkloadResult]:
        session = run.session

        def make_job(workloads: tuple[Workload, ...]) -> JobSpec:
            options = {"order": run.number, "uuid": session.uuid, "limits": session.difference_limits(workloads), **run.options}
            return session.job("timing", run.name, workloads, seconds=session.seconds(Kind.TIMING), options=options)

        start = self._signals[run.name]
        return isolation.run_isolated(run.workloads, make_job, is_healthy=session.is_healthy, at_once=1, start=start)


def require_samples(result: WorkloadResult) -> WorkloadResult:
    """Mark a result as missing unless all samples are finite."""
    lacking = [key for key in SAMPLE_KEYS.values() if not _is_finite(result.values.get(key))]
    if result.missing is not None or not lacking:
        return result
    message = f"the worker wrote {result.values.get(lacking[0], 'nothing')} for {lacking[0]}"
    return replace(result, missing=Missing(code=Code.INVALID_RESULT, message=message))


def subject_failed(result: WorkloadResult | None) -> bool:
    """Return whether the workload itself failed."""
    return result is not None and result.missing is not None and result.missing.code in SUBJECT_FAILURES


def keep_results(session: Session, kind: str, name: str, results: Iterable[WorkloadResult]) -> list[str]:
    """Copy result files, and return their names."""
    found = sorted({result.result_file for result in results if result.result_file.exists()})
    kept: list[Path] = []
    for index, file in enumerate(found):
        with contextlib.suppress(OSError):  # not a plain file: its workloads have no outcome either
            data = files.read(file, limit=files.MAX_RECORD, follow=False)
            kept.append(session.artifact(kind, f"{name}{f'-{index}' if index else ''}.json"))
            write_atomically(kept[-1], data)
    return [session.relative(path) for path in kept]


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
