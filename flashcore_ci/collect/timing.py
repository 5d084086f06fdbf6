"""Timing: fresh processes one after the other, each timing every workload; the process is the unit of statistics."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from flashcore_ci.adapters.nvml import reasons as reasons_in_words
from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.machine import Machine
from flashcore_ci.collect.process_runs import SAMPLED, Trial, Trials, guilty, keep
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.reading import Missing, Reading, Samples, measured
from flashcore_ci.model.suite import Kind, Workload


class Timer:
    """The processes that judge stability. The first may start, and wait for its word, while others still measure."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.processes = machine.session.plan.protocol.timing_processes
        self._trials = Trials(machine.session.context.scratch)

    def start(self, number: int, workloads: tuple[Workload, ...]) -> None:
        """Start a process that waits; its time does not count yet."""
        if number < self.processes:
            self._trials.start(self._trial(number, workloads))

    def finish(self, number: int, workloads: tuple[Workload, ...]) -> dict[str, Outcome]:
        """Give this process the word, and wait for all that it measures."""
        return self._trials.finish(self._trial(number, workloads))

    def close(self) -> None:
        """End what still waits."""
        self._trials.close()

    def _trial(self, number: int, workloads: tuple[Workload, ...]) -> Trial:
        return Trial(name=f"timing-{number}", number=number, machine=self.machine, workloads=workloads)


def collect(machine: Machine, timer: Timer) -> tuple[Observation, ...]:
    """One observation for every workload that wants it. A workload that is at fault itself is not tried again."""
    workloads = left = machine.session.workloads(Kind.TIMING)
    tries: dict[str, list[Outcome]] = {workload.id: [] for workload in workloads}
    artifacts: list[str] = []
    for number in range(timer.processes):
        if not left:
            break
        timer.start(number, left)
        timer.start(number + 1, left)
        machine.session.context.progress(f"timing: process {number + 1} of {timer.processes}")
        outcomes = timer.finish(number, left)
        for name, outcome in outcomes.items():
            tries[name].append(outcome)
        artifacts += keep(machine.session.context, "timing", f"process-{number}", outcomes.values())
        left = tuple(workload for workload in left if not guilty(outcomes.get(workload.id)))
    return tuple(_observe(machine, workload, tries[workload.id], timer.processes, artifacts) for workload in workloads)


def _observe(
    machine: Machine, workload: Workload, tries: Sequence[Outcome], processes: int, artifacts: Sequence[str]
) -> Observation:
    good = [outcome.values for outcome in tries if outcome.missing is None]
    return machine.session.observation(
        Kind.TIMING,
        workload,
        readings=_readings(good) if good else (),
        samples=tuple(
            (name, Samples(values=tuple(float(values[theirs]) for values in good), unit=METRICS[name].unit))
            for name, theirs in SAMPLED.items()
        ),
        notes=_notes(tries, good),
        artifacts=tuple(artifacts),
        missing=shortfall([outcome.missing for outcome in tries], processes),
        seconds=sum(float(outcome.values.get("seconds", 0.0)) for outcome in tries),
    )


def shortfall(tries: Sequence[Missing | None], processes: int) -> Missing | None:
    """Why there are fewer samples than processes were due, if there are: the workload's own fault first, then the commonest reason."""
    survivors = sum(missing is None for missing in tries)
    if survivors >= processes:
        return None
    reasons = [missing for missing in tries if missing is not None]
    if not reasons:
        return Missing(code=Code.TOO_FEW_PROCESSES, message=f"{survivors} of {processes} processes ran")
    guilty = [missing for missing in reasons if missing.code in SUBJECT_FAILURES]
    commonest = Counter(missing.code for missing in reasons).most_common(1)[0][0]
    chosen = guilty[0] if guilty else next(missing for missing in reasons if missing.code is commonest)
    code = chosen.code if guilty or not survivors or chosen.code is Code.INTERRUPTED else Code.TOO_FEW_PROCESSES
    return Missing(code=code, message=f"{survivors} of {processes} processes gave a sample; {chosen.code}: {chosen.message}")


def _readings(good: Sequence[dict[str, Any]]) -> tuple[tuple[str, Reading], ...]:
    medians = {name: (theirs, METRICS[name].unit) for name, theirs in SAMPLED.items()}
    others = {
        "std/within": ("std_percent", "%"),
        "blocks/kept": ("kept", "count"),
        "blocks/dropped": ("dropped", "count"),
        "power/gpu": ("watts", "W"),
        "temperature/gpu": ("celsius", "C"),
    }
    return tuple(
        (name, measured(statistics.median(float(values[theirs]) for values in good), unit))
        for name, (theirs, unit) in {**medians, **others}.items()
        if all(theirs in values for values in good)
    )


def _notes(tries: Sequence[Outcome], good: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    masks = {int(mask, 16) for values in good for mask in values.get("reasons", {})}
    words = [word for mask in sorted(masks) for word in reasons_in_words(mask)]
    lost = [f"process {number}: {o.missing.code}: {o.missing.message}" for number, o in enumerate(tries) if o.missing is not None]
    held = [f"clocks were held by: {', '.join(words)}"] if words else []
    blind = any("watts" not in values for values in good)
    unseen = ["the worker's interpreter has no nvidia-ml-py: power and throttling were not seen"] if blind else []
    return (*held, *unseen, *lost)
