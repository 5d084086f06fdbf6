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
from flashcore_ci.collect import child, machine_code
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.process_runs import GRAPH_KEY, MIXED, SAMPLE_KEYS, ProcessRun, ProcessRuns, keep_results, subject_failed
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence, Identity, JitModule, Observation, Provenance
from flashcore_ci.model.identity import ANCHORED, GRAPH_LAUNCHES, SAME_CODE, digest_of, is_bound, is_covered, is_same_code
from flashcore_ci.model.jit import BASE, is_complete
from flashcore_ci.model.metrics import ANCHOR, METRICS, SIDES
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing, Samples, measured
from flashcore_ci.model.suite import Kind, Workload

Modules = tuple[JitModule, ...]
ORDER = (*SIDES, ANCHOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A built checkout of a commit: ``identities`` of what it can run, else ``cannot``. ``new``: not in its own suite.

    ``python`` is the interpreter of this side (None: head's), and ``environment`` names the tools that differ. ``anchor`` is timed
    as a third side.
    """

    commit: str
    root: Path
    libraries: Path
    plan: Plan
    builds: tuple[BuildEvidence, ...]
    identities: dict[str, Identity]
    cannot: dict[str, str]
    new: frozenset[str] = frozenset()
    python: Path | None = None
    environment: tuple[str, ...] = ()
    anchor: Base | None = None

    def session(self, head: Session) -> Session:
        """Return head's session in the base's checkout."""
        python = self.python or head.python
        return replace(head, root=self.root, libraries=self.libraries, plan=self.plan, builds=self.builds, python=python)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimLooks:
    """After how many rounds a comparison may stop, if ``is_final`` says so."""

    rounds: tuple[int, ...]
    is_final: Callable[[str, Mapping[str, Samples], Provenance], bool]


@dataclass(slots=True, kw_only=True)
class PairedSeries:
    """The completed rounds of one workload by side, and why others were lost."""

    workload: Workload
    sides: tuple[str, ...] = SIDES
    rounds: list[dict[str, dict[str, Any]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reasons: list[Missing] = field(default_factory=list)
    failure: Missing | None = None
    over: bool = False

    def add(self, number: int, results: Mapping[str, WorkloadResult | None]) -> None:
        """Add one round. A failing side ends the series, and head's failure counts first."""
        for side in self.sides:
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
                self.failure = Missing(code=Code.NO_BASE, message=f"the {side} cannot run it: {missing.code}: {missing.message}")
        both = {side: result.values for side, result in results.items() if result is not None and result.missing is None}
        if all(side in both for side in self.sides):
            self.rounds.append(both)

    def samples(self) -> tuple[tuple[str, Samples], ...]:
        """Return the completed rounds, paired by index."""
        return tuple(
            (f"{side}/{name}", Samples(values=tuple(float(values[side][key]) for values in self.rounds), unit=METRICS[name].unit))
            for side in self.sides
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


def collect(
    head: Session, base: Session, looks: InterimLooks, provenance: Provenance, anchor: Session | None = None
) -> tuple[Observation, ...]:
    """Return one observation per workload, and one with the ``anchor`` for each that is timed. Equal code is not timed."""
    workloads = head.workloads(Kind.COMPARISON)
    compiled = {w.id: _compile_both(head, base, w) for w in workloads if _is_compiled_when_run(head, base, w)}
    same = {w.id for w in workloads if _is_same(head, base, w) or is_same_when_run(compiled.get(w.id))}
    series = {workload.id: PairedSeries(workload=workload) for workload in workloads if workload.id not in same}
    anchored = {} if anchor is None else _anchored_series(head, base, anchor, series)
    artifacts = run_rounds(head, base, looks, series, provenance, third=(anchor, anchored) if anchor is not None else None)
    observed = [_observe(head, base, w, series.get(w.id), artifacts, compiled=compiled.get(w.id)) for w in workloads]
    if anchor is not None:
        observed += [_observe_anchor(head, anchor, pairs, artifacts) for pairs in anchored.values()]
    return tuple(observed)


def _anchored_series(
    head: Session, base: Session, anchor: Session, series: Mapping[str, PairedSeries]
) -> dict[str, PairedSeries]:
    """Return a series per timed workload that the anchor runs. If base and anchor are the same code, one comparison is both."""
    able = {workload.id for workload in anchor.workloads(Kind.COMPARISON)}
    workloads = (pairs.workload for name, pairs in series.items() if name in able)
    pairs = (PairedSeries(workload=w, sides=(ANCHOR, SIDES[1])) for w in workloads if not _is_same(anchor, base, w))
    return {each.workload.id: replace(each, over=_is_same(head, anchor, each.workload)) for each in pairs}


def _observe_anchor(head: Session, anchor: Session, series: PairedSeries, artifacts: list[str]) -> Observation:
    """Observe the comparison with the anchor. No gate judges it."""
    is_same = _is_same(head, anchor, series.workload)
    seen = _observe(head, anchor, series.workload, None if is_same else series, [] if is_same else artifacts)
    return replace(seen, readings=(*seen.readings, (ANCHORED, measured(1.0, "count"))), seconds=0.0)


def is_same_when_run(both: tuple[Modules, Modules] | None) -> bool:
    """Tell whether frameworks compiled and launched the same for base and head, and all of it was seen."""
    return both is not None and both[0] == both[1] and is_complete(both[0])


def _is_compiled_when_run(head: Session, base: Session, workload: Workload) -> bool:
    """Tell whether equal machine code would be the same code: of sources, lock files and versions that are equal."""
    identities = [session.identity(Kind.COMPARISON, workload) for session in (base, head)]
    bound = [build is not None and is_bound(build) for build in (base.build(workload.subject), head.build(workload.subject))]
    is_equal = identities[0] == identities[1] and all(bound) and base.python == head.python
    return is_equal and Kind.MACHINE_CODE in workload.collect and identities[0] is not None and not is_covered(identities[0])


def _compile_both(head: Session, base: Session, workload: Workload) -> tuple[Modules, Modules]:
    head.progress(f"comparison: the machine code of {workload.id}")
    return machine_code.modules_of(base, workload), machine_code.modules_of(head, workload)


def _choices(series: PairedSeries) -> Iterator[JitModule]:
    """Yield what autotuners chose in most rounds of each side."""
    for side, prefix in (("head", ""), ("base", BASE)) if series.sides == SIDES else ():
        found: dict[str, Counter[tuple[tuple[str, str], ...]]] = {}
        for both in series.rounds:
            for name, chosen in both[side].get("choices", {}).items():
                found.setdefault(str(name), Counter())[tuple(sorted((str(k), str(v)) for k, v in chosen.items()))] += 1
        for name, counted in sorted(found.items()):
            configuration = counted.most_common(1)[0][0]
            yield JitModule(
                framework="autotuner",
                name=f"{prefix}{name}",
                digest=digest_of(configuration),
                sources="",
                configuration=configuration,
            )


def _is_same(head: Session, base: Session, workload: Workload) -> bool:
    before, after = ((one.identity(Kind.COMPARISON, workload), one.build(workload.subject)) for one in (base, head))
    return base.python == head.python and is_same_code(before, after)


def run_rounds(
    head: Session,
    base: Session,
    looks: InterimLooks,
    series: dict[str, PairedSeries],
    provenance: Provenance,
    *,
    third: tuple[Session, dict[str, PairedSeries]] | None = None,
) -> list[str]:
    """Run rounds until every series is over. Return the result files' names."""
    extra = third[1] if third is not None else {}
    sessions = {"base": base, "head": head} | ({ANCHOR: third[0]} if third is not None else {})
    runs = ProcessRuns(head.scratch)
    artifacts: list[str] = []
    batched: dict[str, bool] = {}
    remaining = tuple(pairs.workload for pairs in series.values())
    try:
        for begin, end in itertools.pairwise((0, *looks.rounds)):
            if not remaining or process.stopping():
                break
            pairs_of_third = {name: pairs for name, pairs in extra.items() if not pairs.over}
            also = tuple(w for w in remaining if w.id in pairs_of_third or ANCHOR in series[w.id].sides)
            workloads = dict.fromkeys(SIDES, remaining) | ({ANCHOR: also} if also else {})
            rounds = [_Round(number=n, sessions=sessions, workloads=workloads, batched=batched) for n in range(begin, end)]
            for number, results in _finish(rounds, runs, head):
                for side in results:
                    artifacts += keep_results(head, "comparison", f"round-{number}-{side}", results[side].values())
                for pairs in (found[w.id] for found in (series, pairs_of_third) for w in remaining if w.id in found):
                    pairs.add(number, {side: results[side].get(pairs.workload.id) for side in pairs.sides})
            remaining = tuple(workload for workload in remaining if not series[workload.id].is_over(looks, provenance))
    finally:
        runs.close()
    return artifacts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One process per side in random order. The first decides ``batched`` for all others."""

    number: int
    sessions: Mapping[str, Session]
    workloads: Mapping[str, tuple[Workload, ...]]
    batched: dict[str, bool]
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", tuple(random.sample(list(self.workloads), len(self.workloads))))

    def run(self, side: str) -> ProcessRun:
        name, number = f"round-{self.number}-{side}", self.number * len(ORDER) + ORDER.index(side)
        session, options = self.sessions[side], {"batched": dict(self.batched)}
        return ProcessRun(name=name, number=number, session=session, workloads=self.workloads[side], options=options)


def _finish(rounds: list[_Round], runs: ProcessRuns, head: Session) -> Iterator[tuple[int, dict[str, dict[str, WorkloadResult]]]]:
    """Yield each round's results. The next process starts while one measures."""
    queue = [(current, side) for current in rounds for side in current.order]
    results: dict[str, dict[str, WorkloadResult]] = {}
    for (current, side), following in itertools.zip_longest(queue, queue[1:]):
        if process.stopping():
            return
        run = current.run(side)
        runs.start(run)
        if following is not None and current.batched.keys() >= {workload.id for workload in run.workloads}:
            runs.start(following[0].run(following[1]))
        head.progress(f"comparison: round {current.number + 1}, {side}, {len(current.workloads[side])} workloads")
        results[side] = runs.finish(run)
        for name, result in results[side].items():
            if "batched" in result.values:
                current.batched.setdefault(name, result.values["batched"])
        if len(results) == len(current.order):
            yield current.number, results
            results = {}


def _observe(
    head: Session,
    base: Session,
    workload: Workload,
    series: PairedSeries | None,
    artifacts: list[str],
    *,
    compiled: tuple[Modules, Modules] | None = None,
) -> Observation:
    identity = base.identity(Kind.COMPARISON, workload)
    bases, heads = compiled or ((), ())
    if series is None:
        same = ((SAME_CODE, measured(1.0, "count")),)
        return head.observation(Kind.COMPARISON, workload, base=identity, readings=same, jit=heads)
    values = [both[side] for both in series.rounds for side in series.sides]
    counts = {f"blocks/{which}": float(sum(value.get(which, 0) for value in values)) for which in ("kept", "dropped")}
    if graphs := [value[GRAPH_KEY] for value in values if GRAPH_KEY in value]:
        counts[GRAPH_LAUNCHES] = float(graphs[0])
    missing = MIXED if len({GRAPH_KEY in value for value in values}) > 1 else series.missing()
    return head.observation(
        Kind.COMPARISON,
        workload,
        base=identity,
        readings=tuple((name, measured(count, "count")) for name, count in counts.items()),
        samples=() if missing is not None else series.samples(),
        notes=tuple(series.notes),
        artifacts=tuple(artifacts),
        missing=missing,
        seconds=sum(float(value.get("seconds", 0.0)) for value in values),
        isolation=child.isolation_of(values),
        jit=(*heads, *(replace(module, name=f"{BASE}{module.name}") for module in bases), *_choices(series)),
    )
