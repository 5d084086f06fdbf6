"""One process for all workloads; only after a crash or a hang the rest each in their own, so that one never hides the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters.process import Completed
from flashcore_ci.collect import child
from flashcore_ci.collect.child import Ended, Go, Order
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Workload

Orders = Callable[[tuple[Workload, ...]], Order]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one workload gave: the worker's ``values``, or why there are none; and the process that it ran in."""

    values: dict[str, Any]
    missing: Missing | None
    completed: Completed | None
    result: Path


def all_of(
    workloads: tuple[Workload, ...], orders: Orders, *, healthy: Callable[[], bool], together: int, go: Go | None = None
) -> dict[str, Outcome]:
    """One outcome for every workload. ``orders`` makes a job of some; ``together`` may run at a time when they run apart.

    ``healthy`` asks a known-good kernel after a crash or hang, also after the last one: without its word, none is blamed on workloads.
    """
    ended = child.run(orders(workloads), go)
    outcomes = _outcomes(workloads, ended)
    rest = tuple(workload for workload in workloads if workload.id not in outcomes)
    fate = _fate(ended)
    outcomes = _unless_ill(outcomes | {workload.id: _lost(fate, ended) for workload in rest}, healthy)
    if len(workloads) == 1 or not all(_died(outcomes[workload.id]) for workload in rest):
        return outcomes
    with ThreadPoolExecutor(together) as pool:
        alone = list(pool.map(lambda workload: once(orders((workload,))), rest))
    return outcomes | _unless_ill({name: outcome for one in alone for name, outcome in one.items()}, healthy)


def once(order: Order) -> dict[str, Outcome]:
    """One outcome for every workload of ``order``, from one process: what did not come to its end shares the process's fate."""
    ended = child.run(order)
    outcomes = _outcomes(order.workloads, ended)
    return {workload.id: outcomes.get(workload.id) or _lost(_fate(ended), ended) for workload in order.workloads}


def _fate(ended: Ended) -> Missing:
    return ended.fault or Missing(code=Code.INVALID_RESULT, message="the worker passed this workload over")


def _outcomes(workloads: tuple[Workload, ...], ended: Ended) -> dict[str, Outcome]:
    outcomes = {
        workload.id: Outcome(
            values=ended.outcomes[workload.id],
            missing=child.missing_of(ended.outcomes[workload.id]),
            completed=ended.completed,
            result=ended.result,
        )
        for workload in workloads
        if workload.id in ended.outcomes
    }
    known = {workload.id for workload in workloads}
    if ended.in_flight in known and ended.in_flight is not None and ended.fault is not None:
        outcomes[ended.in_flight] = _lost(ended.fault, ended)
    return outcomes


def _lost(missing: Missing, ended: Ended) -> Outcome:
    return Outcome(values={}, missing=missing, completed=ended.completed, result=ended.result)


def _died(outcome: Outcome) -> bool:
    """Whether a workload's own failure may as well be the machine's."""
    return outcome.missing is not None and outcome.missing.code in child.DEATHS


def _unless_ill(outcomes: dict[str, Outcome], healthy: Callable[[], bool]) -> dict[str, Outcome]:
    """The outcomes; when something died, and a known-good kernel fails as well, no workload is blamed for it."""
    dead = {name: one.missing for name, one in outcomes.items() if one.missing is not None and _died(one)}
    if not dead or healthy():
        return outcomes
    said = {name: f"a known-good kernel failed too, after: {missing.message}" for name, missing in dead.items()}
    ill = {
        name: replace(outcomes[name], missing=Missing(code=Code.DEVICE_UNHEALTHY, message=text)) for name, text in said.items()
    }
    return outcomes | ill
