"""Time workloads in fresh processes: the process is the unit of statistics."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import clock
from flashcore_ci.bounded import files
from flashcore_ci.collect import isolation
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.session import Session
from flashcore_ci.collect.start_signal import StartSignal
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.model.timing_protocol import SPARE_PROCESSES
from flashcore_ci.store.files import write_atomically

SAMPLE_KEYS = {"time/gpu/cold": "ms", "cycles/gpu/cold": "megacycles", "clock/sm": "mhz"}
"""The worker's key for each sampled metric."""
AHEAD = 2
"""Processes that wait while one measures: to import torch and its compiler takes longer than a short measurement."""
MAX_PROCESSES = 64
POLL_SECONDS = 0.002
MAKING_POLLS = 60_000  # two minutes
GRAPH_KEY = "graph_launches"
"""The worker's key for the launches in its longer graph, if there are graphs."""
HINTS = ("sets", "batched")
MIXED = Missing(code=Code.INVALID_RESULT, message="some processes launched it in graphs, and others did not")
GROUP_KEYS = {"link/bandwidth": "gbps", "gpus/speedup": "speedup"}
"""The worker's key for what only a group of GPUs has. The reading is the median over processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRun:
    """A process to run. ``number`` seeds its order. ``ahead``: it may start CUDA before ``hold``. ``stays``: it ends when all have measured."""

    name: str
    number: int
    session: Session
    workloads: tuple[Workload, ...]
    options: dict[str, Any] = field(default_factory=dict)
    ahead: bool = False
    stays: bool = False

    @property
    def contexts(self) -> int:
        """How many processes of it may be on the GPU before the signal: its own, and those of candidates."""
        described = self.session.plan.description
        works = Counter(workload.subject for workload in self.workloads if described(workload.subject).candidate)
        return 1 + sum(min(SPARE_PROCESSES, count) for count in works.values())


class ProcessRuns:
    """The timing processes. The next may start early."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._signals: dict[str, StartSignal] = {}
        self._pool = ThreadPoolExecutor(MAX_PROCESSES)
        self._started: dict[str, Future[dict[str, WorkloadResult]]] = {}
        self._ahead: dict[str, int] = {}
        self._sent: set[str] = set()
        self._held: set[str] = set()

    def start(self, run: ProcessRun) -> None:
        """Start a process that waits for its signal, once."""
        if run.name not in self._started and run.workloads:
            self._signals[run.name] = StartSignal(self._scratch / f"go-{run.name}")
            self._ahead |= {run.name: run.contexts} if run.ahead else {}
            self._started[run.name] = self._pool.submit(self._run, run)

    def hold(self) -> None:
        """Let no process start CUDA ahead, which would disturb what is measured. Return when none does. One that hangs is ended."""
        for name in self._ahead:
            self._signals[name].hold()
        for name in self._ahead:
            for _ in range(MAKING_POLLS):
                if not self._signals[name].is_making() or self._started[name].done():
                    break
                clock.sleep(POLL_SECONDS)
            else:
                self._signals[name].cancel()

    def contexts(self) -> int:
        """Return how many CUDA contexts the waiting processes have made, at most."""
        waiting = (name for name in self._ahead if not self._started[name].done() and self._signals[name].has_made())
        return sum(self._ahead[name] for name in waiting)

    def measure(self, run: ProcessRun, hints: dict[str, Any] | None = None, *, then: ProcessRun | None = None) -> bool:
        """Send the signal with ``hints``, and wait until the process has ended. Return True if it stays, having measured all.

        What it chose is added to ``hints``.

        ``then`` gets its signal once this process has measured all without a failure. It starts CUDA meanwhile, and measures after the
        end of this one, because a process that ends disturbs DRAM for half a second. One that stays need not end before.
        """
        self.start(run)
        self._send(run, hints)
        if run.name not in self._signals:
            return False
        signal, seconds = self._signals[run.name], run.session.seconds(Kind.TIMING)
        signal.release(seconds)
        while not self._started[run.name].done():
            if signal.is_done():
                if hints is not None:
                    chosen, names = signal.choices(), {workload.id for workload in run.workloads}
                    hints |= {name: {"batched": chosen[name]} for name in names & chosen.keys() - hints.keys()}
                if then is not None and then.name in self._started:
                    self._send(then, hints)
                if signal.stays():
                    signal.suspend()
                    self._held.add(run.name)
                    return True
                break
            clock.sleep(POLL_SECONDS)
        self._started[run.name].result()
        return False

    def results(self, run: ProcessRun) -> dict[str, WorkloadResult]:
        """Return one result per workload of a process that has measured. If it stays, all that do so end now, at the same time."""
        for name in self._held if run.name in self._held else ():
            self._signals[name].let_end(run.session.seconds(Kind.TIMING))
        return {name: require_samples(result) for name, result in self._started[run.name].result().items()}

    def finish(
        self, run: ProcessRun, hints: dict[str, Any] | None = None, *, then: ProcessRun | None = None
    ) -> dict[str, WorkloadResult]:
        """Measure, and return one result per workload."""
        self.measure(run, hints, then=then)
        found = self.results(run)
        remember(found, {} if hints is None else hints)
        return found

    def drop(self, name: str) -> None:
        """End a process that waits for its signal. It may be started again."""
        if name in self._started and name not in self._sent:
            self._signals.pop(name).cancel()
            self._started.pop(name).result()
            self._ahead.pop(name, None)

    def _send(self, run: ProcessRun, hints: Mapping[str, Any] | None) -> None:
        if run.name not in self._sent:
            self._sent.add(run.name)
            self._signals[run.name].send(run.session.seconds(Kind.TIMING), hints)

    def close(self) -> None:
        """End the processes that still wait."""
        for signal in self._signals.values():
            signal.cancel()
        self._pool.shutdown()

    def _run(self, run: ProcessRun) -> dict[str, WorkloadResult]:
        session = run.session

        def make_job(workloads: tuple[Workload, ...]) -> JobSpec:
            options = {"order": run.number, "uuid": session.uuid, "limits": session.difference_limits(workloads), **run.options}
            options |= {"ahead": True} if run.ahead else {}
            options |= {"stays": True} if run.stays else {}
            return session.job("timing", run.name, workloads, seconds=session.seconds(Kind.TIMING), options=options)

        start = self._signals[run.name]
        return isolation.run_isolated(run.workloads, make_job, is_healthy=session.is_healthy, at_once=1, start=start)


def remember(results: Mapping[str, WorkloadResult], hints: dict[str, Any]) -> None:
    """Add what a process chose to the ``hints`` for the others. One that failed anywhere said nothing itself."""
    for name, result in results.items():
        if result.missing is None and "batched" in result.values:
            hints.setdefault(name, {key: result.values.get(key) for key in HINTS})


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
