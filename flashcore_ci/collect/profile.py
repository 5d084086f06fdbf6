"""Profile every workload once under ncu, in one process."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

from flashcore_ci.adapters import ncu, ncu_page, process
from flashcore_ci.adapters.process import Completed
from flashcore_ci.collect import child, isolation
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.session import Session
from flashcore_ci.collect.start_signal import StartSignal
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import InterruptedRunError
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Missing, Reading
from flashcore_ci.model.suite import Kind, Workload

READING_SECONDS = 120.0
PAGE = ".csv"
Actions = tuple[ncu.Action, ...]
MACHINE_AT_FAULT = frozenset({Code.COUNTERS_DENIED, Code.COUNTERS_IN_USE})


class Profiler:
    """Make jobs under ncu, and remember each workload's report."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tool = session.require_ncu()
        self.reports: dict[str, Path] = {}
        self._numbers = itertools.count()

    def make_job(self, workloads: tuple[Workload, ...]) -> JobSpec:
        """Return a job in one process."""
        report = self.session.artifact("profile", f"report-{next(self._numbers)}.ncu-rep")
        self.reports |= {workload.id: report for workload in workloads}
        argv, seconds = partial(ncu.argv, self.tool, report=report), self.session.seconds(Kind.PROFILE)
        job = partial(self.session.job, "profile", "profile", workloads, seconds=seconds)
        return job(variables=self._own_lock(workloads), wrap=lambda command: argv(command=command))

    def _own_lock(self, workloads: tuple[Workload, ...]) -> dict[str, str]:
        """Let GPUs of a fleet be profiled at once: ncu waits for those with its ``TMPDIR``, which isolated candidates keep."""
        session = self.session
        if session.neighbours is None or any(session.plan.description(each.subject).candidate for each in workloads):
            return {}
        folder = session.scratch / "ncu"
        folder.mkdir(parents=True, exist_ok=True)
        return {"TMPDIR": str(folder)}


Profiled = tuple[Profiler, isolation.Workloads, dict[str, WorkloadResult]]


def contexts(session: Session) -> int:
    """Return how many CUDA contexts are made before the start signal, at most. Candidates make theirs later."""
    workloads = session.workloads(Kind.PROFILE)
    return int(bool(workloads) and not any(session.plan.description(each.subject).candidate for each in workloads))


def run(session: Session, start: StartSignal) -> Profiled | None:
    """Profile after ``start``. The GPU is free afterwards."""
    workloads = session.workloads(Kind.PROFILE)
    if not workloads:
        return None
    session.may_start()
    profiler = Profiler(session)
    results = isolation.run_isolated(workloads, profiler.make_job, is_healthy=session.is_healthy, at_once=1, start=start)
    return profiler, workloads, results


def read(session: Session, profiled: Profiled | None) -> tuple[Observation, ...]:
    """Return one observation per workload. It reads reports, and needs no GPU."""
    if profiled is None:
        return ()
    profiler, workloads, results = profiled
    reports = profiler.reports
    with ThreadPoolExecutor() as pool:
        written = sorted(set(reports.values()))
        pages = pool.map(partial(_write_page, profiler), written)
        actions = dict(zip(written, pool.map(partial(_actions, profiler), written), strict=True))
        list(pages)
    return tuple(_observe(session, each, results[each.id], reports[each.id], actions[reports[each.id]]) for each in workloads)


def _actions(profiler: Profiler, report: Path) -> Actions:
    argv = ncu.reading_argv(profiler.tool, report)
    try:
        done = process.run(argv, logs=profiler.session.scratch, name=f"read-{report.stem}", timeout=READING_SECONDS)
    except InterruptedRunError:
        return ()
    return ncu.parse_actions(done.text()) if done.returncode == 0 and not done.timed_out else ()


def _write_page(profiler: Profiler, report: Path) -> None:
    """Write ncu's page of the report next to it, for machines without ``ncu-report``."""
    argv, name = ncu_page.argv(profiler.tool, report), f"page-{report.stem}"
    with contextlib.suppress(InterruptedRunError):
        done = process.run(argv, logs=profiler.session.scratch, name=name, timeout=READING_SECONDS)
        if done.returncode == 0 and not done.timed_out:
            shutil.copyfile(done.stdout, report.with_suffix(PAGE))


def _observe(session: Session, workload: Workload, result: WorkloadResult, report: Path, actions: Actions) -> Observation:
    found = _readings(result, actions, workload.id, session.entries(workload))
    kernels = sorted({action.kernel for action in actions if action.workload == workload.id})
    return session.observation(
        Kind.PROFILE,
        workload,
        readings=() if isinstance(found, Missing) else tuple(found.items()),
        notes=tuple(f"profiled: {kernel[:80]}" for kernel in kernels),
        artifacts=tuple(session.relative(file) for file in (report, report.with_suffix(PAGE)) if file.exists()),
        missing=found if isinstance(found, Missing) else None,
        seconds=float(result.values.get("seconds", 0.0)),
    )


@lru_cache(maxsize=4)
def _complaint(completed: Completed) -> Missing | None:
    return ncu.find_error(f"{completed.text()}\n{completed.error_text()}")


def _readings(result: WorkloadResult, actions: Actions, workload: str, entries: tuple[str, ...]) -> dict[str, Reading] | Missing:
    complaint = None if result.completed is None else _complaint(result.completed)
    if complaint is not None and complaint.code in MACHINE_AT_FAULT:
        return complaint
    if result.missing is not None:
        return result.missing
    found = ncu.make_readings(actions, workload, entries)
    return child.unless_stopped(complaint or found) if isinstance(found, Missing) else found
