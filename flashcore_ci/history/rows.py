"""Turn a run into rows. Pure. Everything in a run is text from outside, and its numbers must fit the columns."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from flashcore_ci.history.queries import OUTCOMES
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
from flashcore_ci.model.history import Commit, Standing
from flashcore_ci.model.identity import digest_of, is_covered, was_same_code, workload_digest, workload_identity
from flashcore_ci.model.metrics import SIDES, primary_scale
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind, Scope, Workload
from flashcore_ci.model.text import visible
from flashcore_ci.model.verdict import Outcome, Verdict
from flashcore_ci.store.codec import encode

Row = dict[str, Any]
MAX_INTEGER = 2**53
MAX_TEXT = 500
MAX_READINGS = 64
MAX_RECORDS = 16 << 20
"""Characters of all verdicts that did not pass."""
SUMMARISED = {"ms": "time/gpu/cold", "megacycles": "cycles/gpu/cold", "mhz": "clock/sm"}
SHARED_KINDS = frozenset({Kind.CORRECTNESS, Kind.SANITIZER})
"""Kinds whose readings are the same whenever the same code runs."""
FIX = "collect again: the evidence was altered"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to store: what was measured, what was judged, and what the caller knows of it. Times in UTC seconds."""

    plan: Plan
    evidence: Evidence
    verdicts: tuple[Verdict, ...]
    outcome: Outcome
    headline: str
    commit: Commit
    added_at: int
    digest: str
    bundle: str = ""
    branch: str = ""
    standing: Standing = Standing.OTHER
    invocation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRows:
    """The rows of one workload. ``base`` is the code that it was compared with."""

    series: Row
    epoch: Row | None
    code: Row | None
    entries: tuple[Row, ...]
    point: Row
    own: Mapping[str, float]
    shared: Mapping[str, float]
    base: Row | None = None
    ratio: Row | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """All rows of a run, without the ids that the database gives."""

    run: Row
    commit: Row
    toolset: Row
    check_set: Row
    machine: Row | None
    points: tuple[PointRows, ...]
    verdicts: tuple[Row, ...] = field(default_factory=tuple)


def rows_of(new: NewRun) -> RunRows:
    """Turn a run into rows. EvidenceError for numbers that no measurement has."""
    provenance = new.evidence.provenance
    machine = None if provenance.device is None else _machine(provenance.device, provenance.machine_class)
    checks = sorted({(check.gate.id, check.target) for check in new.plan.checks} | {(v.gate, v.target) for v in new.verdicts})
    run = {
        "digest": bytes.fromhex(new.digest),
        "suite": _text(new.plan.suite),
        "driver": _text(provenance.device.driver if provenance.device else ""),
        "collected_at": int(datetime.fromisoformat(provenance.collected_at).replace(tzinfo=UTC).timestamp()),
        "dirty": int(provenance.dirty),
        "seconds": _float(sum(observation.seconds for observation in new.evidence.observations)),
        "standing": new.standing.value,
        "outcome": new.outcome.value,
        "added_at": new.added_at,
        **{name: _line(getattr(new, name)) for name in ("bundle", "branch", "headline", "invocation")},
    }
    return RunRows(
        run=run,
        commit={name: getattr(new.commit, name) for name in Commit.__slots__}
        | {"subject": _line(new.commit.subject), "sha": _text(new.commit.sha)},
        toolset={"tools": _json(sorted(_tools(new.evidence)))},
        check_set={"count": len(checks), "checks": zlib.compress(_json(checks).encode())},
        machine=machine,
        points=tuple(_points(new)),
        verdicts=_verdicts(new.verdicts),
    )


def content_digest(row: Row) -> bytes:
    """Digest everything that a shared row says."""
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
    return bytes.fromhex(digest_of("row", plain))


def _points(new: NewRun) -> Iterator[PointRows]:
    worst: dict[str, Outcome] = {}
    for verdict in new.verdicts:
        if verdict.scope is Scope.WORKLOAD:
            worst[verdict.target] = max(worst.get(verdict.target, Outcome.PASS), verdict.outcome, key=OUTCOMES.index)
    observed: dict[str, list[Observation]] = {}
    for observation in new.evidence.observations:
        observed.setdefault(observation.target, []).append(observation)
    builds = {build.subject: build for build in new.evidence.builds}
    for workload in new.plan.workloads:
        build = builds.get(workload.subject)
        found = {} if build is None else _of_this_code(new.plan, workload, build, observed.get(workload.id, ()))
        yield _point(new, workload, build, found, worst.get(workload.id, Outcome.INCONCLUSIVE))


def _of_this_code(
    plan: Plan, workload: Workload, build: BuildEvidence, observations: Iterable[Observation]
) -> dict[Kind, Observation]:
    """Return the observations of the code that the run built, as the judge finds them."""
    problem = plan.description(workload.subject).problem(workload.id)
    found: dict[Kind, Observation] = {}
    for observation in observations:
        if problem is not None and observation.identity == workload_identity(
            observation.kind, workload, problem, build, plan.protocol
        ):
            found.setdefault(observation.kind, observation)
    return found


def _point(
    new: NewRun, workload: Workload, build: BuildEvidence | None, found: Mapping[Kind, Observation], outcome: Outcome
) -> PointRows:
    provenance, device = new.evidence.provenance, new.evidence.provenance.device
    timed = found.get(Kind.TIMING) or found.get(Kind.COMPARISON)
    identity = next((observation.identity for observation in (timed, *found.values()) if observation), None)
    problem = new.plan.description(workload.subject).problem(workload.id)
    entries = [entry for entry in build.entries if problem and entry.symbol in problem.entries] if build and identity else []
    compared = found.get(Kind.COMPARISON)
    base, ratio = _ratio(new, workload, compared) if compared else (None, None)
    return PointRows(
        series={
            "suite": _text(new.plan.suite),
            "workload": _text(workload.id),
            "subject": _text(workload.subject),
            "question": workload_digest(workload),
            "roof": workload.roof.value,
            "scale": primary_scale(workload.roof).value,
            "machine_class": _text(_class_of(device, provenance.machine_class)),
        },
        epoch=None if timed is None or device is None else _epoch(provenance, device, timed),
        code=None if identity is None else _code(identity, new.digest),
        entries=tuple(_entry(entry) for entry in entries),
        point={"outcome": OUTCOMES.index(outcome), **_summary(timed)},
        own=_readings(observation for kind, observation in found.items() if kind not in SHARED_KINDS),
        shared=_readings(observation for kind, observation in found.items() if kind in SHARED_KINDS),
        base=base,
        ratio=ratio,
    )


def _epoch(provenance: Provenance, device: Device, timed: Observation) -> Row:
    conditions = {"driver": device.driver, "clock_policy": provenance.clock_policy, "collector": timed.identity.collector}
    return {name: _text(value) for name, value in conditions.items()}


def _summary(timed: Observation | None) -> Row:
    """Summarise the samples of the timing, or of head's side of a comparison."""
    samples = dict(timed.samples) if timed else {}
    prefix = "head/" if timed and timed.kind is Kind.COMPARISON else ""
    row: Row = {"samples": 0}
    for column, metric in SUMMARISED.items():
        values = samples[f"{prefix}{metric}"].values if f"{prefix}{metric}" in samples else ()
        row["samples"] = max(row["samples"], len(values))
        row[column] = _float(mean(values)) if values else None
        row[f"{column}_std"] = _float(sample_std(values)) if len(values) > 1 else None
    return row


def _ratio(new: NewRun, workload: Workload, compared: Observation) -> tuple[Row | None, Row | None]:
    """Return base's code and log(head / base), if both answer the same question and were measured."""
    base, head = compared.base, compared.identity
    if base is None or (base.workload, base.collector) != (head.workload, head.collector):
        return None, None
    if is_covered(base) and is_covered(head) and base.subject != head.subject:
        return None, None
    code = _code(base, f"{new.digest} base")
    if was_same_code(compared):
        return code, {"log_ratio": 0.0, "standard_error": None, "df": 0.0, "rounds": 0}
    samples = dict(compared.samples)
    before, after = (samples.get(f"{side}/{primary_scale(workload.roof).metric}") for side in SIDES)
    if before is None or after is None or len(before.values) != len(after.values):
        return None, None
    try:
        logs = [math.log(y) - math.log(x) for x, y in zip(before.values, after.values, strict=True)]
        found = estimate(logs, None)
    except (ValueError, ZeroDivisionError):  # a value that is not above zero, too few rounds, or equal ones: no measurement
        return None, None
    return code, {
        "log_ratio": _float(found.mean),
        "standard_error": _float(found.standard_error),
        "df": found.df,
        "rounds": found.rounds,
    }


def _code(identity: Identity, unique: str) -> Row:
    """Name the code. Code that no digest covers is never equal to other code, so ``unique`` goes into its identity."""
    parts = {name: _text(getattr(identity, name)) for name in ("machine_code", "launcher", "binding", "subject")}
    return {**parts, "identity": digest_of("code", *parts.values(), "" if is_covered(identity) else unique)}


def _entry(entry: EntryBuild) -> Row:
    counts = ("registers", "highest_register", "spill_store_bytes", "spill_load_bytes", "stack_bytes")
    more = ("static_shared_bytes", "dynamic_shared_bytes", "waits")
    return {
        "symbol": _text(entry.symbol),
        "machine_code": _text(entry.digest),
        **{name: _integer(getattr(entry, name), name) for name in (*counts, *more)},
        "opcodes": _json(sorted((_text(name), _integer(count, "an opcode's count")) for name, count in entry.opcodes)),
    }


def _machine(device: Device, given: str) -> Row:
    return {
        **{name: _text(getattr(device, name)) for name in ("name", "uuid", "compute_capability")},
        **{name: _integer(getattr(device, name), name) for name in ("multiprocessors", "memory", "l2")},
        "machine_class": _text(_class_of(device, given)),
    }


def _class_of(device: Device | None, given: str) -> str:
    return given or (machine_class(device) if device else "")


def _tools(evidence: Evidence) -> Iterator[tuple[str, str]]:
    provenance = evidence.provenance
    named = [("flashcore-ci", provenance.version), *provenance.tools]
    named += [(f"compiler of {build.subject}", build.compiler) for build in evidence.builds]
    named += [(f"{name} of {build.subject}", version) for build in evidence.builds for name, version in build.dependencies]
    return ((_text(name), _text(version)) for name, version in dict(named).items())


def _readings(observations: Iterable[Observation]) -> dict[str, float]:
    """Return the measured values, except those that samples or the ratio have."""
    found = {
        _text(name): _float(reading.value)
        for observation in observations
        for name, reading in observation.readings
        if isinstance(reading, Measured) and name not in SUMMARISED.values()
    }
    if len(found) > MAX_READINGS:
        raise EvidenceError(f"a workload has {len(found)} readings, and {MAX_READINGS} are allowed", fix=FIX)
    return found


def _verdicts(verdicts: tuple[Verdict, ...]) -> tuple[Row, ...]:
    rows = {
        (verdict.gate, verdict.target): {
            "gate": _text(verdict.gate),
            "target": _text(verdict.target),
            "outcome": verdict.outcome.value,
            "code": verdict.reason.code.value,
            "message": _line(verdict.reason.message),
            "record": _json(json.loads(encode(verdict))),
        }
        for verdict in verdicts
        if verdict.outcome is not Outcome.PASS
    }
    if sum(len(row["record"]) for row in rows.values()) > MAX_RECORDS:
        raise EvidenceError(f"the failed verdicts hold more than {MAX_RECORDS >> 20} MiB", fix=FIX)
    return tuple(rows.values())


def _line(text: str) -> str:
    """Make text visible, in one line and bounded. PostgreSQL takes no NUL, and pages no control characters."""
    return visible(" ".join(text[:MAX_TEXT].split()))


def _text(text: str) -> str:
    """Make a name as ``_line`` does. Two names stay two: one that is not shown as it is ends in its digest."""
    line = _line(text)
    return line if line == text else f"{line} {digest_of(text)[:12]}"


def _integer(value: int, what: str) -> int:
    if not abs(value) <= MAX_INTEGER:
        raise EvidenceError(f"{what} is {value}, and no GPU has that", fix=FIX)
    return value


def _float(value: float) -> float:
    if not abs(value) <= 1e30:  # noqa: PLR2004 - far above any measurement, and a single-precision number
        raise EvidenceError(f"a value is {value:g}, and no measurement has that", fix=FIX)
    return value


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
