"""Evidence of the first schema. Three committed recordings stay readable, one of them until it is made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import BuildEvidence, Evidence, Identity
from flashcore_ci.model.identity import NO_MACHINE_CODE, collector_digest, machine_code_digest, workload_digest
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Kind
from flashcore_ci.store.codec import decode

EVIDENCE_V1 = "evidence-v1"
COLLECTOR_VERSIONS_V1 = dict.fromkeys(Kind, 1) | dict.fromkeys((Kind.CORRECTNESS, Kind.SANITIZER, Kind.TIMING), 2)
V1_MARK = b'"schema": "evidence-v1"'
READABLE = frozenset(
    {
        "8ebe90e3e64f21191c9f7a5ac7d1cf4ab23b2dcc0d7288ffafac4bd4f4fa83bd",
        "d33d638b887f97919417d48c5ec82d67205445accac5fdc534465e0e4f98ed48",
        "d87f74f24a51c35f1469375a8efc518ba4850da2cc8ecdc3c87d13f9007a0ee3",  # until the next recording
    }
)
"""SHA-256 of ``evidence.json`` in the two bundles of c3d5a88, and in the run of the cheats."""


def is_v1(data: bytes) -> bool:
    """Tell whether ``evidence.json`` is of the first schema."""
    return data.rstrip().removesuffix(b"}").rstrip().endswith(V1_MARK)


def decode_v1(data: bytes, plan: Plan, *, where: str) -> Evidence:
    """Read old evidence with empty new fields. EvidenceError unless it is a known file.

    It is judged by the digests and collectors of its time. So identities that are those of its own plan and builds are written in
    today's format.
    """
    if hashlib.sha256(data).hexdigest() not in READABLE:
        raise EvidenceError(f"{where}: schema {EVIDENCE_V1} is no longer read", fix="collect again with this version")
    record = json.loads(data)
    for observation in record["observations"]:
        observation.update(attempt=1, isolation=None, jit=[])
    record.update(attempts=[], shard=None, schema="evidence-v2")
    evidence = decode(Evidence, json.dumps(record).encode(), where=where)
    names = {_digest_v1([]): NO_MACHINE_CODE} | dict(translations(plan, evidence.builds))
    observations = tuple(
        replace(old, identity=_translated(old.identity, names), base=_translated(old.base, names) if old.base else None)
        for old in evidence.observations
    )
    return replace(evidence, observations=observations)


def _digest_v1(*parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _translated(identity: Identity, names: Mapping[str, str]) -> Identity:
    """Exchange the parts that are computed from a plan and its builds. The others are recorded in the builds as they were."""
    parts = {part: getattr(identity, part) for part in ("machine_code", "workload", "collector")}
    return replace(identity, **{part: names.get(digest, digest) for part, digest in parts.items()})


def translations(plan: Plan, builds: tuple[BuildEvidence, ...]) -> Iterator[tuple[str, str]]:
    """Yield the old digests of the run's collectors, workloads and machine code, and the new ones."""
    for kind in Kind:
        parameters = {Kind.TIMING: (plan.protocol.timing_processes,), Kind.CORRECTNESS: (plan.protocol.repeats,)}.get(kind, ())
        yield _digest_v1(kind, COLLECTOR_VERSIONS_V1[kind], parameters), collector_digest(kind, plan.protocol)
    for workload in plan.workloads:
        yield _digest_v1(workload.subject, workload.params, workload.seed), workload_digest(workload)
    for build in builds:
        codes = {entry.symbol: entry.digest for entry in build.entries}
        problems = [p for description in plan.descriptions if description.subject == build.subject for p in description.problems]
        for symbols in {tuple(sorted(set(problem.entries))) for problem in problems}:
            if codes.keys() >= set(symbols):
                old = _digest_v1([(symbol, codes[symbol]) for symbol in symbols])
                yield old, machine_code_digest(build, symbols) or ""
