"""Speed of light: every workload once under ncu, in one process."""

from __future__ import annotations

import itertools
from functools import lru_cache
from pathlib import Path

from flashcore_ci.adapters import ncu, process
from flashcore_ci.adapters.process import Completed
from flashcore_ci.collect import child, isolation
from flashcore_ci.collect.child import Go, Order
from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.machine import Machine, shared
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Missing, Reading
from flashcore_ci.model.suite import Kind, Workload

READING_SECONDS = 120.0
MACHINE_AT_FAULT = frozenset({Code.COUNTERS_DENIED, Code.COUNTERS_IN_USE})


class Profiler:
    """Orders for ncu, and the report file of each."""

    def __init__(self, machine: Machine) -> None:
        tool = machine.session.context.ncu
        if tool is None:
            raise CannotCollectError("ncu (Nsight Compute) is not here", fix="install Nsight Compute; it is not on PyPI")
        self.machine = machine
        self.tool = tool
        self.reports: dict[str, Path] = {}
        self._numbers = itertools.count()

    def order(self, workloads: tuple[Workload, ...]) -> Order:
        """Profile these in one process."""
        number = next(self._numbers)
        report = shared(self.machine.session.context.artifact("profile", f"report-{number}.ncu-rep"))
        self.reports |= {workload.id: report for workload in workloads}
        return self.machine.order(
            "profile",
            "profile",
            workloads,
            seconds=self.machine.session.seconds(Kind.PROFILE),
            wrap=lambda command: ncu.argv(self.tool, report=report, command=command),
        )


def collect(machine: Machine, go: Go) -> tuple[Observation, ...]:
    """One observation for every workload that wants it. ``go`` was given before this is called, or will be."""
    workloads = machine.session.workloads(Kind.PROFILE)
    if not workloads:
        return ()
    profiler = Profiler(machine)
    outcomes = isolation.all_of(workloads, profiler.order, healthy=machine.healthy, together=1, go=go)
    actions = {path: _actions(profiler, path) for path in sorted(set(profiler.reports.values()))}
    return tuple(
        _observe(machine, workload, outcomes[workload.id], profiler.reports[workload.id], actions[profiler.reports[workload.id]])
        for workload in workloads
    )


def _actions(profiler: Profiler, report: Path) -> tuple[ncu.Action, ...]:
    """What the report holds; nothing when its reader falls over it, or the run is stopped meanwhile."""
    argv = ncu.reading_argv(profiler.tool, report)
    try:
        done = process.run(
            argv, logs=profiler.machine.session.context.scratch, name=f"read-{report.stem}", timeout=READING_SECONDS
        )
    except InterruptedRunError:
        return ()
    return ncu.parse_actions(done.text()) if done.returncode == 0 and not done.timed_out else ()


def _observe(
    machine: Machine, workload: Workload, outcome: Outcome, report: Path, actions: tuple[ncu.Action, ...]
) -> Observation:
    session = machine.session
    found = _read(outcome, actions, workload.id, session.entries(workload))
    kernels = sorted({action.kernel for action in actions if action.workload == workload.id})
    return session.observation(
        Kind.PROFILE,
        workload,
        readings=() if isinstance(found, Missing) else tuple(found.items()),
        notes=tuple(f"profiled: {kernel[:80]}" for kernel in kernels),
        artifacts=(session.context.relative(report),) if report.exists() else (),
        missing=found if isinstance(found, Missing) else None,
        seconds=float(outcome.values.get("seconds", 0.0)),
    )


@lru_cache(maxsize=4)
def _complaint(completed: Completed) -> Missing | None:
    """What ncu complains of: the same for all workloads of a process, whose output may be long."""
    return ncu.find_error(f"{completed.text()}\n{completed.error_text()}")


def _read(
    outcome: Outcome, actions: tuple[ncu.Action, ...], workload: str, entries: tuple[str, ...]
) -> dict[str, Reading] | Missing:
    """What ncu complains of comes before what the workload seems to have done wrong under it."""
    complaint = None if outcome.completed is None else _complaint(outcome.completed)
    if complaint is not None and complaint.code in MACHINE_AT_FAULT:
        return complaint
    if outcome.missing is not None:
        return outcome.missing
    found = ncu.make_readings(actions, workload, entries)
    return child.unless_stopped(complaint or found) if isinstance(found, Missing) else found
