"""Trials: fresh processes one after the other, each timing workloads. The process is the unit of statistics.

Stability, comparisons and calibration all time by this, and by the worker's one job ``timing``.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashcore_ci.collect import isolation
from flashcore_ci.collect.child import Go, Order
from flashcore_ci.collect.context import Context
from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.machine import Machine, shared
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind, Workload

SAMPLED = {"time/gpu/cold": "ms", "cycles/gpu/cold": "megacycles", "clock/sm": "mhz"}
"""Our names of what the worker samples, and the worker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One process to be: ``number`` seeds the order of its workloads, ``options`` are further ones of the worker's job."""

    name: str
    number: int
    machine: Machine
    workloads: tuple[Workload, ...]
    options: dict[str, Any] = field(default_factory=dict)


class Trials:
    """The fresh processes of one run. The next one may start, and wait for its word, while the present one measures."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._gos: dict[str, Go] = {}
        self._pool = ThreadPoolExecutor(2)
        self._started: dict[str, Future[dict[str, Outcome]]] = {}

    def start(self, trial: Trial) -> None:
        """Start a process that waits; its time does not count yet. One that was started before is left alone."""
        if trial.name not in self._started and trial.workloads:
            self._gos[trial.name] = Go(self._scratch / f"go-{trial.name}")
            self._started[trial.name] = self._pool.submit(self._run, trial)

    def finish(self, trial: Trial) -> dict[str, Outcome]:
        """Give this process the word, and wait for all that it measures. Only what is finite counts as a sample."""
        self.start(trial)
        self._gos[trial.name].say(trial.machine.session.seconds(Kind.TIMING))
        return {name: sampled(outcome) for name, outcome in self._started[trial.name].result().items()}

    def close(self) -> None:
        """End what still waits."""
        for go in self._gos.values():
            go.never()
        self._pool.shutdown()

    def _run(self, trial: Trial) -> dict[str, Outcome]:
        machine = trial.machine

        def order(some: tuple[Workload, ...]) -> Order:
            return machine.order(
                "timing",
                trial.name,
                some,
                seconds=machine.session.seconds(Kind.TIMING),
                options={"order": trial.number, "uuid": machine.session.uuid, **trial.options},
            )

        return isolation.all_of(trial.workloads, order, healthy=machine.healthy, together=1, go=self._gos[trial.name])


def sampled(outcome: Outcome) -> Outcome:
    """The outcome; one without a finite number for every sample is none. Clocks that were not seen are not the kernel's doing."""
    lacking = [theirs for theirs in SAMPLED.values() if not _finite(outcome.values.get(theirs))]
    if outcome.missing is not None or not lacking:
        return outcome
    said = f"the worker gave {outcome.values.get(lacking[0], 'nothing')} for {lacking[0]}"
    return replace(outcome, missing=Missing(code=Code.INVALID_RESULT, message=said))


def guilty(outcome: Outcome | None) -> bool:
    """Whether the workload itself is at fault: it is not tried again."""
    return outcome is not None and outcome.missing is not None and outcome.missing.code in SUBJECT_FAILURES


def keep(context: Context, kind: str, name: str, outcomes: Iterable[Outcome]) -> list[str]:
    """Copy the processes' results, with every block of launches, into the run; the names that observations carry."""
    results = sorted({outcome.result for outcome in outcomes if outcome.result.exists()})
    kept: list[Path] = []
    for index, result in enumerate(results):
        kept.append(shared(context.artifact(kind, f"{name}{f'-{index}' if index else ''}.json")))
        shutil.copyfile(result, kept[-1])
    return [context.relative(path) for path in kept]


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
