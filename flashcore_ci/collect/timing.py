"""Time every workload in several fresh processes, to judge stability."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from flashcore_ci.adapters import host
from flashcore_ci.adapters.nvml import reasons as reasons_in_words
from flashcore_ci.collect import child
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.process_runs import (
    AHEAD,
    GRAPH_KEY,
    GROUP_KEYS,
    MIXED,
    SAMPLE_KEYS,
    ProcessRun,
    ProcessRuns,
    keep_results,
    remember,
    subject_failed,
)
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.identity import GRAPH_LAUNCHES
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.reading import Missing, Reading, Samples, measured
from flashcore_ci.model.suite import Kind, Workload

AHEAD_CPUS, AHEAD_BYTES = 16, 40 << 30
"""Cores and GPU memory for three processes at once, each with its candidates."""


class Timer:
    """The timing processes. The first may start early."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.processes = session.plan.protocol.timing_processes
        self._runs = ProcessRuns(session.scratch)
        self._hints: dict[str, dict[str, Any]] = {}

    def start(self, number: int, workloads: tuple[Workload, ...], *, ahead: bool = False) -> None:
        """Start a process that waits for its signal."""
        if number < self.processes:
            self._runs.start(self._run(number, workloads, ahead=ahead))

    def start_ahead(self, workloads: tuple[Workload, ...], *, at_once: bool = False) -> None:
        """Start the first processes while the GPU is busy, ``at_once`` only those of candidates on a large machine.

        On a large machine these start CUDA, too, which correctness does not need then. Without candidates all processes start.
        """
        isolated = all(self.session.plan.description(workload.subject).candidate for workload in workloads)
        stay = self._may_stay(workloads)
        ahead = stay or (isolated and self._is_large())
        if at_once and not (ahead and isolated):
            return
        for number in range(self.processes if stay else AHEAD + ahead):
            self.start(number, workloads, ahead=ahead)

    def _is_large(self) -> bool:
        return host.cpus() >= AHEAD_CPUS and self.session.memory >= AHEAD_BYTES and len(self.session.gpus) == 1

    def _may_stay(self, workloads: tuple[Workload, ...]) -> bool:
        """Tell whether idle processes can wait for the last one: candidates' have others, with memory of their own."""
        return self._is_large() and not any(self.session.plan.description(one.subject).candidate for one in workloads)

    def hold(self) -> None:
        """Return when no process starts CUDA. Each waits for its signal now."""
        self._runs.hold()

    def contexts(self) -> int:
        """Return how many processes on the GPU wait for a signal, at most."""
        return self._runs.contexts()

    def measure(self, number: int, workloads: tuple[Workload, ...]) -> dict[str, WorkloadResult] | None:
        """Send the signal, and wait. Return the results, or None if the process stays: then it failed nowhere.

        The first process chooses graphs and sets for all. What failed is not timed again by processes that wait already.
        """
        then = self._run(number + 1, workloads) if number + 1 < self.processes else None
        run = self._run(number, workloads)
        if self._runs.measure(run, self._hints, then=then):
            return None
        found = self._runs.results(run)
        remember(found, self._hints)
        if any(map(subject_failed, found.values())):
            for later in range(number + 1, self.processes):
                self._runs.drop(f"timing-{later}")
        return found

    def results(self, number: int, workloads: tuple[Workload, ...]) -> dict[str, WorkloadResult]:
        """Return the results of a process that stayed."""
        return self._runs.results(self._run(number, workloads))

    def close(self) -> None:
        """End the processes that still wait."""
        self._runs.close()

    def _run(self, number: int, workloads: tuple[Workload, ...], *, ahead: bool = False) -> ProcessRun:
        name, options, stays = f"timing-{number}", {"alone": True}, self._may_stay(workloads)
        return ProcessRun(
            name=name, number=number, session=self.session, workloads=workloads, options=options, ahead=ahead, stays=stays
        )


def collect(session: Session, timer: Timer) -> tuple[Observation, ...]:
    """Return one observation per workload."""
    workloads = remaining = session.workloads(Kind.TIMING)
    measured: list[tuple[Workload, ...]] = []
    found: dict[int, dict[str, WorkloadResult]] = {}
    for number in range(timer.processes):
        if not remaining:
            break
        for ahead in range(1 + AHEAD):
            timer.start(number + ahead, remaining)
        session.progress(f"timing: process {number + 1} of {timer.processes}")
        measured.append(remaining)
        ended = timer.measure(number, remaining)
        if ended is not None:
            found[number] = ended
            remaining = tuple(workload for workload in remaining if not subject_failed(ended.get(workload.id)))
    results: dict[str, list[WorkloadResult]] = {workload.id: [] for workload in workloads}
    artifacts: list[str] = []
    for number, timed in enumerate(measured):
        of_process = found.get(number) or timer.results(number, timed)
        for name, result in of_process.items():
            results[name].append(result)
        artifacts += keep_results(session, "timing", f"process-{number}", of_process.values())
    return tuple(_observe(session, workload, results[workload.id], timer.processes, artifacts) for workload in workloads)


def _observe(
    session: Session, workload: Workload, results: Sequence[WorkloadResult], processes: int, artifacts: Sequence[str]
) -> Observation:
    good = [result.values for result in results if result.missing is None]
    mixed = len({GRAPH_KEY in values for values in good}) > 1
    return session.observation(
        Kind.TIMING,
        workload,
        readings=_readings(good) if good else (),
        samples=tuple(
            (name, Samples(values=tuple(float(values[key]) for values in good), unit=METRICS[name].unit))
            for name, key in SAMPLE_KEYS.items()
        ),
        notes=_notes(results, good),
        artifacts=tuple(artifacts),
        missing=MIXED if mixed else shortfall([result.missing for result in results], processes),
        seconds=sum(float(result.values.get("seconds", 0.0)) for result in results),
        isolation=child.isolation_of(good),
    )


def shortfall(failures: Sequence[Missing | None], processes: int) -> Missing | None:
    """Return why samples are too few: the subject's failure, else the commonest."""
    samples = sum(missing is None for missing in failures)
    if samples >= processes:
        return None
    reasons = [missing for missing in failures if missing is not None]
    if not reasons:
        return Missing(code=Code.TOO_FEW_PROCESSES, message=f"{samples} of {processes} processes ran")
    by_subject = [missing for missing in reasons if missing.code in SUBJECT_FAILURES]
    commonest = Counter(missing.code for missing in reasons).most_common(1)[0][0]
    chosen = by_subject[0] if by_subject else next(missing for missing in reasons if missing.code is commonest)
    code = chosen.code if by_subject or not samples or chosen.code is Code.INTERRUPTED else Code.TOO_FEW_PROCESSES
    return Missing(code=code, message=f"{samples} of {processes} processes gave a sample. {chosen.code}: {chosen.message}")


def _readings(good: Sequence[dict[str, Any]]) -> tuple[tuple[str, Reading], ...]:
    sampled = {name: (key, METRICS[name].unit) for name, key in SAMPLE_KEYS.items()}
    others = {
        "std/within": ("std_percent", "%"),
        "blocks/kept": ("kept", "count"),
        "blocks/dropped": ("dropped", "count"),
        "power/gpu": ("watts", "W"),
        "temperature/gpu": ("celsius", "C"),
        GRAPH_LAUNCHES: (GRAPH_KEY, "count"),
        **{name: (key, METRICS[name].unit) for name, key in GROUP_KEYS.items()},
    }
    known = {name: of for name, of in {**sampled, **others}.items() if all(of[0] in values for values in good)}
    medians = {name: statistics.median(float(values[key]) for values in good) for name, (key, _) in known.items()}
    return tuple((name, measured(median, known[name][1])) for name, median in medians.items())


def _notes(results: Sequence[WorkloadResult], good: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    masks = {int(mask, 16) for values in good for mask in values.get("reasons", {})}
    reasons = [reason for mask in sorted(masks) for reason in reasons_in_words(mask)]
    failures = [(number, result.missing) for number, result in enumerate(results) if result.missing is not None]
    unseen = any("watts" not in values for values in good)
    return (
        *([f"clocks were held by: {', '.join(reasons)}"] if reasons else []),
        *(["the worker's interpreter has no nvidia-ml-py: power and throttling were not seen"] if unseen else []),
        *(f"process {number}: {missing.code}: {missing.message}" for number, missing in failures),
    )
