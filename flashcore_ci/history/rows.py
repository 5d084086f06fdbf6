"""Turn a run into rows. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from flashcore_ci.history.anchors import Chain, chains_of
from flashcore_ci.history.cells import FIX, Row, as_json, integer, label, line, number
from flashcore_ci.history.measured import PointRows, class_of, points_of
from flashcore_ci.model.anchor import Pin
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Device, Evidence
from flashcore_ci.model.history import OUTCOMES, Commit, Standing
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.verdict import Outcome, Verdict
from flashcore_ci.store.codec import encode

MAX_RECORDS = 16 << 20
"""Characters of all verdicts that did not pass."""


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
    pins: tuple[Pin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """All rows of a run, without the ids that the database gives."""

    run: Row
    commit: Row
    toolset: Row
    check_set: Row
    machine: Row | None
    points: tuple[PointRows, ...]
    verdicts: tuple[Row, ...] = ()
    anchors: tuple[Chain, ...] = ()


def rows_of(new: NewRun) -> RunRows:
    """Turn a run into rows. EvidenceError for numbers that no measurement has."""
    provenance = new.evidence.provenance
    machine = None if provenance.device is None else _machine(provenance.device, provenance.machine_class)
    checks = sorted({(check.gate.id, check.target) for check in new.plan.checks} | {(v.gate, v.target) for v in new.verdicts})
    run = {
        "digest": bytes.fromhex(new.digest),
        "suite": label(new.plan.suite),
        "driver": label(provenance.device.driver if provenance.device else ""),
        "collected_at": _seconds(provenance.collected_at),
        "dirty": int(provenance.dirty),
        "seconds": number(sum(observation.seconds for observation in new.evidence.observations)),
        "stages": as_json(_stages(new.evidence)),
        "standing": new.standing.value,
        "outcome": new.outcome.value,
        "added_at": new.added_at,
        **{name: line(getattr(new, name)) for name in ("bundle", "branch", "headline", "invocation")},
    }
    return RunRows(
        run=run,
        commit={name: getattr(new.commit, name) for name in Commit.__slots__}
        | {"subject": line(new.commit.subject), "sha": label(new.commit.sha)},
        toolset={"tools": as_json(sorted(_tools(new.evidence)))},
        check_set={"count": len(checks), "checks": zlib.compress(as_json(checks).encode())},
        machine=machine,
        points=points_of(new.plan, new.evidence, new.verdicts, new.digest),
        verdicts=_verdicts(new.verdicts),
        anchors=chains_of(new.pins, new.plan, new.evidence.observations, class_of(provenance.device, provenance.machine_class)),
    )


def _stages(evidence: Evidence) -> dict[str, float]:
    """Return the seconds of each kind of evidence."""
    found: dict[str, float] = {}
    for observation in evidence.observations:
        found[observation.kind.value] = found.get(observation.kind.value, 0.0) + number(observation.seconds)
    return {name: round(seconds, 3) for name, seconds in found.items() if seconds > 0}


def content_digest(row: Row) -> bytes:
    """Digest everything that a shared row says."""
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
    return bytes.fromhex(digest_of("row", plain))


def _seconds(moment: str) -> int:
    parsed = datetime.fromisoformat(moment)
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())


def _machine(device: Device, given: str) -> Row:
    return {
        **{name: label(getattr(device, name)) for name in ("name", "uuid", "compute_capability")},
        **{name: integer(getattr(device, name), name) for name in ("multiprocessors", "memory", "l2")},
        "machine_class": label(class_of(device, given)),
    }


def _tools(evidence: Evidence) -> Iterator[tuple[str, str]]:
    provenance = evidence.provenance
    named = [("flashcore-ci", provenance.version), *provenance.tools]
    named += [(f"compiler of {build.subject}", build.compiler) for build in evidence.builds]
    named += [(f"{name} of {build.subject}", version) for build in evidence.builds for name, version in build.dependencies]
    return ((label(name), label(version)) for name, version in dict(named).items())


def _verdicts(verdicts: tuple[Verdict, ...]) -> tuple[Row, ...]:
    """Keep the worst verdict of each check, if it is not a PASS."""
    rows = {
        (verdict.gate, verdict.target): {
            "gate": label(verdict.gate),
            "target": label(verdict.target),
            "outcome": verdict.outcome.value,
            "code": verdict.reason.code.value,
            "message": line(verdict.reason.message),
            "record": as_json(json.loads(encode(verdict))),
        }
        for verdict in sorted(verdicts, key=lambda verdict: OUTCOMES.index(verdict.outcome))
        if verdict.outcome is not Outcome.PASS
    }
    if sum(len(row["record"]) for row in rows.values()) > MAX_RECORDS:
        raise EvidenceError(f"the failed verdicts hold more than {MAX_RECORDS >> 20} MiB", fix=FIX)
    return tuple(rows.values())
