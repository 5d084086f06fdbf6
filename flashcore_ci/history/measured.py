"""Turn what a run measured of its workloads into rows: points, their code, and ratios to other code. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from flashcore_ci.history.cells import FIX, Row, as_json, integer, label, number
from flashcore_ci.judge.stats.descriptive import mean, sample_std
from flashcore_ci.judge.stats.paired_estimate import estimate
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import (
    BuildEvidence,
    Device,
    EntryBuild,
    Evidence,
    Identity,
    Observation,
    Provenance,
    machine_class,
)
from flashcore_ci.model.history import COUNTS, OUTCOMES
from flashcore_ci.model.identity import (
    code_digest,
    how_timed,
    is_anchored,
    is_covered,
    was_same_code,
    workload_digest,
    workload_identity,
)
from flashcore_ci.model.metrics import ANCHOR, SIDES, primary_scale
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.subject import Problem
from flashcore_ci.model.suite import Kind, Scope, Severity, Workload
from flashcore_ci.model.verdict import Outcome, Verdict

MAX_READINGS = 64
NOT_KEPT = frozenset({"blocks/kept", "blocks/dropped", *(f"{scale}/gpu/cold" for scale in ("time", "cycles")), "clock/sm"})
"""Readings that the summary or the bundle has."""
SUMMARISED = {"ms": "time/gpu/cold", "megacycles": "cycles/gpu/cold", "mhz": "clock/sm"}
SHARED_KINDS = frozenset({Kind.CORRECTNESS, Kind.SANITIZER})
"""Kinds whose readings are the same whenever the same code runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRows:
    """The rows of one workload. ``own`` has the summary and the readings of this run, ``ratios`` (base's code, ratio) per base."""

    series: Row
    epoch: Row | None
    code: Row | None
    entries: tuple[Row, ...]
    point: Row
    own: Mapping[str, float]
    shared: Mapping[str, float]
    ratios: tuple[tuple[Row, Row], ...] = ()


def points_of(plan: Plan, evidence: Evidence, verdicts: tuple[Verdict, ...], digest: str) -> tuple[PointRows, ...]:
    """Return the rows of every planned workload. EvidenceError if the plan is not whole, or gives one twice."""
    worst: dict[str, Outcome] = {}
    for verdict in verdicts:
        if verdict.scope is Scope.WORKLOAD and (verdict.blocks or verdict.severity is Severity.BLOCKING):
            worst[verdict.target] = max(worst.get(verdict.target, Outcome.PASS), verdict.outcome, key=OUTCOMES.index)
    if len({workload.id for workload in plan.workloads}) != len(plan.workloads):
        raise EvidenceError("the plan gives a workload twice", fix=FIX)
    observed: dict[str, list[Observation]] = {}
    for observation in evidence.observations:
        observed.setdefault(observation.target, []).append(observation)
    builds = {build.subject: build for build in evidence.builds}
    points = []
    for workload in plan.workloads:
        problem, build = _problem(plan, workload), builds.get(workload.subject)
        seen = observed.get(workload.id, ())
        found = _of_this_code(plan, workload, problem, build, seen) if build and problem else ()
        entries = [entry for entry in build.entries if entry.symbol in problem.entries] if build and problem and found else []
        outcome = worst.get(workload.id, Outcome.INCONCLUSIVE)
        points.append(
            _point(
                *(plan.suite, evidence.provenance, workload),
                found=found,
                entries=entries,
                outcome=outcome,
                digest=digest,
                work=_work(problem) if found and problem else {},
            )
        )
    return tuple(points)


def class_of(device: Device | None, given: str) -> str:
    """Return the class of machines, also of a run that is older than its field."""
    return given or (machine_class(device) if device else "")


def _problem(plan: Plan, workload: Workload) -> Problem | None:
    try:
        return plan.description(workload.subject).problem(workload.id)
    except KeyError:
        raise EvidenceError(f"the plan does not describe the subject {label(workload.subject)}", fix=FIX) from None


def _of_this_code(
    plan: Plan, workload: Workload, problem: Problem, build: BuildEvidence, observations: Iterable[Observation]
) -> tuple[Observation, ...]:
    """Return the observations of the code that the run built, as the judge finds them."""
    return tuple(
        observation
        for observation in observations
        if observation.identity == workload_identity(observation.kind, workload, problem, build, plan.protocol)
    )


def _point(
    suite: str,
    provenance: Provenance,
    workload: Workload,
    *,
    found: tuple[Observation, ...],
    entries: list[EntryBuild],
    outcome: Outcome,
    digest: str,
    work: Mapping[str, float],
) -> PointRows:
    device = provenance.device
    timed = next((o for kind in (Kind.TIMING, Kind.COMPARISON) for o in found if o.kind is kind and o.samples), None)
    ratios: dict[str, tuple[Row, Row]] = {}
    for pair in filter(None, (_ratio(workload, observation, digest) for observation in found)):
        ratios.setdefault(pair[0]["identity"], pair)
    return PointRows(
        series={
            "suite": label(suite),
            "workload": label(workload.id),
            "question": workload_digest(workload),
            "subject": label(workload.subject),
            "roof": workload.roof.value,
            "scale": primary_scale(workload.roof).value,
            "machine_class": label(class_of(device, provenance.machine_class)),
        },
        epoch=None if timed is None or device is None else _epoch(provenance, device, timed),
        code=_code(found[0].identity, digest) if found else None,
        entries=tuple(map(_entry, entries)),
        point={"outcome": OUTCOMES.index(outcome), "samples": _count(timed)},
        own={**_readings(observation for observation in found if observation.kind not in SHARED_KINDS), **_summary(timed)},
        shared={**_readings(observation for observation in found if observation.kind in SHARED_KINDS), **work},
        ratios=tuple(ratios.values()),
    )


def _work(problem: Problem) -> dict[str, float]:
    """Return FLOP and bytes of one call. Readings of the evidence cannot replace them."""
    return {"work/flops": number(problem.flops), "work/bytes": number(problem.bytes)}


def _epoch(provenance: Provenance, device: Device, timed: Observation) -> Row:
    conditions = {"driver": device.driver, "clock_policy": provenance.clock_policy, "collector": how_timed(timed)}
    return {name: label(value) for name, value in conditions.items()}


def _count(timed: Observation | None) -> int:
    return max((len(samples.values) for _, samples in timed.samples), default=0) if timed else 0


def _summary(timed: Observation | None) -> dict[str, float]:
    """Summarise the samples of the timing, or of head's side of a comparison."""
    samples = dict(timed.samples) if timed else {}
    prefix = "head/" if timed and timed.kind is Kind.COMPARISON else ""
    found: dict[str, float] = {}
    for column, metric in SUMMARISED.items():
        values = samples[f"{prefix}{metric}"].values if f"{prefix}{metric}" in samples else ()
        if values:
            found[column] = mean(list(map(number, values)))
        if len(values) > 1:
            found[f"{column}_std"] = sample_std(values)
    return found


def _ratio(workload: Workload, compared: Observation, digest: str) -> tuple[Row, Row] | None:
    """Return base's code and log(head / base), if both answer the same question and were measured."""
    found = log_ratio(workload, compared)
    if compared.base is None or found is None:
        return None
    return {**_code(compared.base, "" if is_anchored(compared) else f"{digest} base"), "facts": ""}, found


def log_ratio(workload: Workload, compared: Observation) -> Row | None:
    """Return log(head / base) of one sitting with its standard error, None of which was measured."""
    base, head = compared.base, compared.identity
    if compared.kind is not Kind.COMPARISON or base is None or (base.workload, base.collector) != (head.workload, head.collector):
        return None
    if is_covered(base) and is_covered(head) and base.subject != head.subject:
        return None
    sides = (ANCHOR, SIDES[1]) if is_anchored(compared) else SIDES
    if was_same_code(compared):
        return {"log_ratio": 0.0, "standard_error": None, "df": 0.0, "rounds": 0, "far": None}
    metric = primary_scale(workload.roof).metric
    before, after = (dict(compared.samples).get(f"{side}/{metric}") for side in sides)
    if before is None or after is None or len(before.values) != len(after.values):
        return None
    try:
        ratios = [math.log(y) - math.log(x) for x, y in zip(before.values, after.values, strict=True)]
        found = estimate(ratios, None)
    except (ValueError, ZeroDivisionError):  # not above zero, too few rounds, or all equal: no measurement
        return None
    own = {"df": float(found.df), "rounds": found.rounds, "far": max(ratios, key=lambda ratio: abs(ratio - found.mean))}
    return {"log_ratio": found.mean, "standard_error": found.standard_error, **own}


def _code(identity: Identity, unique: str) -> Row:
    """Name the code. Code that no digest covers is never equal to other code, so ``unique`` goes into its identity."""
    parts = {name: label(getattr(identity, name)) for name in ("machine_code", "launcher", "binding", "subject")}
    return {**parts, "identity": code_digest(**parts, unique="" if is_covered(identity) else unique)}


def _entry(entry: EntryBuild) -> Row:
    return {
        "symbol": label(entry.symbol),
        "machine_code": label(entry.digest),
        **{name: integer(getattr(entry, name), name) for name in COUNTS},
        "opcodes": as_json(sorted((label(name), integer(count, "an opcode's count")) for name, count in entry.opcodes)),
    }


def _readings(observations: Iterable[Observation]) -> dict[str, float]:
    """Return the measured values. The first of a name counts."""
    found: dict[str, float] = {}
    for name, value in _measured(observations):
        found.setdefault(name, value)
    if len(found) > MAX_READINGS:
        raise EvidenceError(f"a workload has {len(found)} readings, and {MAX_READINGS} are allowed", fix=FIX)
    return found


def _measured(observations: Iterable[Observation]) -> Iterator[tuple[str, float]]:
    for observation in observations:
        for name, reading in observation.readings:
            if isinstance(reading, Measured) and name not in NOT_KEPT:
                yield label(name), number(reading.value)
