"""Compare base and head in rounds of fresh processes, until all is decided."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import process
from flashcore_ci.collect import child
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.process_runs import SAMPLE_KEYS, ProcessRun, ProcessRuns, keep_results, subject_failed
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence, Identity, Observation, Provenance
from flashcore_ci.model.identity import SAME_CODE, is_same_code
from flashcore_ci.model.metrics import METRICS, SIDES
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing, Samples, measured
from flashcore_ci.model.suite import Kind, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A built checkout of a commit: ``identities`` of what it can run, else ``cannot``. ``new``: not in its own suite."""

    commit: str
    root: Path
    libraries: Path
    plan: Plan
    builds: tuple[BuildEvidence, ...]
    identities: dict[str, Identity]
    cannot: dict[str, str]
    new: frozenset[str] = frozenset()

    def session(self, head: Session) -> Session:
        """Return head's session in the base's checkout."""
        return replace(head, root=self.root, libraries=self.libraries, plan=self.plan, builds=self.builds)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimLooks:
    """After how many rounds a comparison may stop, if ``is_final`` says so."""

    rounds: tuple[int, ...]
    is_final: Callable[[str, Mapping[str, Samples], Provenance], bool]


@dataclass(slots=True, kw_only=True)
class PairedSeries:
    """The completed rounds of one workload by side, and why others were lost."""

    workload: Workload
    rounds: list[dict[str, dict[str, Any]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reasons: list[Missing] = field(default_factory=list)
    failure: Missing | None = None
    over: bool = False

    def add(self, number: int, results: Mapping[str, WorkloadResult | None]) -> None:
        """Add one round. A failing side ends the series, and head's failure counts first."""
        for side in SIDES:
            result = results[side]
            missing = Missing(code=Code.INVALID_RESULT, message="no outcome") if result is None else result.missing
            if missing is None:
                continue
            self.notes.append(f"round {number + 1}: {side}: {missing.code}: {missing.message}")
            self.reasons.append(missing)
            self.over = self.over or subject_failed(result)
            if subject_failed(result) and side == "head":
                self.failure = missing
            elif subject_failed(result) and not self.rounds:
                self.failure = Missing(code=Code.NO_BASE, message=f"the base cannot run it: {missing.code}: {missing.message}")
        both = {side: result.values for side, result in results.items() if result is not None and result.missing is None}
        if len(both) == len(SIDES):
            self.rounds.append(both)

    def samples(self) -> tuple[tuple[str, Samples], ...]:
        """Return the completed rounds, paired by index."""
        return tuple(
            (f"{side}/{name}", Samples(values=tuple(float(values[side][key]) for values in self.rounds), unit=METRICS[name].unit))
            for side in SIDES
            for name, key in SAMPLE_KEYS.items()
        )

    def missing(self) -> Missing | None:
        """Return a failure, or the most common reason for lost rounds."""
        if self.failure is not None or self.rounds:
            return self.failure
        if not self.reasons:
            return Missing(code=Code.INTERRUPTED, message="no round was completed")
        commonest = Counter(missing.code for missing in self.reasons).most_common(1)[0][0]
        return next(missing for missing in self.reasons if missing.code is commonest)

    def is_over(self, looks: InterimLooks, provenance: Provenance) -> bool:
        """Return whether the workload needs no more rounds."""
        return self.over or (bool(self.rounds) and looks.is_final(self.workload.id, dict(self.samples()), provenance))


def collect(head: Session, base: Session, looks: InterimLooks, provenance: Provenance) -> tuple[Observation, ...]:
    """Return one observation per workload. Equal code is not timed."""
    workloads = head.workloads(Kind.COMPARISON)
    series = {workload.id: PairedSeries(workload=workload) for workload in workloads if not _is_same(head, base, workload)}
    artifacts = run_rounds(head, base, looks, series, provenance)
    return tuple(_observe(head, base, workload, series.get(workload.id), artifacts) for workload in workloads)


def _is_same(head: Session, base: Session, workload: Workload) -> bool:
    before, after = ((one.identity(Kind.COMPARISON, workload), one.build(workload.subject)) for one in (base, head))
    return is_same_code(before, after)


def run_rounds(
    head: Session, base: Session, looks: InterimLooks, series: dict[str, PairedSeries], provenance: Provenance
) -> list[str]:
    """Run rounds until every series is over. Return the result files' names."""
    sessions = {"base": base, "head": head}
    runs = ProcessRuns(head.scratch)
    artifacts: list[str] = []
    batched: dict[str, bool] = {}
    remaining = tuple(pairs.workload for pairs in series.values())
    try:
        for begin, end in itertools.pairwise((0, *looks.rounds)):
            if not remaining or process.stopping():
                break
            rounds = [_Round(number=n, sessions=sessions, workloads=remaining, batched=batched) for n in range(begin, end)]
            for number, results in _finish(rounds, runs, head):
                for side in SIDES:
                    artifacts += keep_results(head, "comparison", f"round-{number}-{side}", results[side].values())
                for workload in remaining:
                    series[workload.id].add(number, {side: results[side].get(workload.id) for side in SIDES})
            remaining = tuple(workload for workload in remaining if not series[workload.id].is_over(looks, provenance))
    finally:
        runs.close()
    return artifacts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """Two processes in random order. The first decides ``batched`` for all others."""

    number: int
    sessions: Mapping[str, Session]
    workloads: tuple[Workload, ...]
    batched: dict[str, bool]
    order: tuple[str, ...] = field(default_factory=lambda: tuple(random.sample(SIDES, len(SIDES))))

    def run(self, side: str) -> ProcessRun:
        name, number = f"round-{self.number}-{side}", self.number * len(SIDES) + SIDES.index(side)
        session, options = self.sessions[side], {"batched": dict(self.batched)}
        return ProcessRun(name=name, number=number, session=session, workloads=self.workloads, options=options)


def _finish(rounds: list[_Round], runs: ProcessRuns, head: Session) -> Iterator[tuple[int, dict[str, dict[str, WorkloadResult]]]]:
    """Yield each round's results. The next process starts while one measures."""
    queue = [(current, side) for current in rounds for side in current.order]
    results: dict[str, dict[str, WorkloadResult]] = {}
    for (current, side), following in itertools.zip_longest(queue, queue[1:]):
        if process.stopping():
            return
        run = current.run(side)
        runs.start(run)
        if following is not None and current.batched:
            runs.start(following[0].run(following[1]))
        head.progress(f"comparison: round {current.number + 1}, {side}, {len(current.workloads)} workloads")
        results[side] = runs.finish(run)
        for name, result in results[side].items():
            if "batched" in result.values:
                current.batched.setdefault(name, result.values["batched"])
        if len(results) == len(SIDES):
            yield current.number, results
            results = {}


def _observe(head: Session, base: Session, workload: Workload, series: PairedSeries | None, artifacts: list[str]) -> Observation:
    identity = base.identity(Kind.COMPARISON, workload)
    if series is None:
        same = ((SAME_CODE, measured(1.0, "count")),)
        return head.observation(Kind.COMPARISON, workload, base=identity, readings=same)
    values = [values for both in series.rounds for values in both.values()]
    blocks = {which: float(sum(value.get(which, 0) for value in values)) for which in ("kept", "dropped")}
    missing = series.missing()
    return head.observation(
        Kind.COMPARISON,
        workload,
        base=identity,
        readings=tuple((f"blocks/{which}", measured(count, "count")) for which, count in blocks.items()),
        samples=() if missing is not None else series.samples(),
        notes=tuple(series.notes),
        artifacts=tuple(artifacts),
        missing=missing,
        seconds=sum(float(value.get("seconds", 0.0)) for value in values),
        isolation=child.isolation_of(values),
    )
