"""The identity of a measurement: digests of everything that it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from flashcore_ci.model.evidence import BuildEvidence, Identity, Observation
from flashcore_ci.model.jit import is_complete
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.subject import Problem
from flashcore_ci.model.suite import Kind, Protocol, Workload

COLLECTOR_VERSIONS = dict.fromkeys(Kind, 1) | {Kind.CORRECTNESS: 3, Kind.SANITIZER: 3, Kind.TIMING: 3}
"""Raise a version if the same kernel could give other readings. Its recorded evidence is then stale. Short kernels: ``how_timed``."""


DIGEST_FORMAT = "digest-v2"
"""Raise it if a digest covers other things. Then no earlier digest is equal by accident."""


def digest_of(*parts: object) -> str:
    """Return the SHA-256 in hex of the format and ``parts`` as canonical JSON (sorted, no blanks)."""
    text = json.dumps((DIGEST_FORMAT, *parts), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


SAME_CODE = "comparison/same-code"
NO_MACHINE_CODE = digest_of([])
"""``Identity.machine_code`` of a subject that builds nothing. No digest covers its kernel."""


FILE = "file:"
"""Begins the name of a file in ``BuildEvidence.dependencies``."""
UNKNOWN_VERSION = "unknown"


def is_bound(build: BuildEvidence) -> bool:
    """Tell whether digests of sources and known versions stand for a kernel without machine code at build time."""
    names = dict(build.dependencies)
    return bool(names) and UNKNOWN_VERSION not in names.values()


def is_covered(identity: Identity) -> bool:
    """Tell whether digests cover the kernel."""
    return identity.machine_code != NO_MACHINE_CODE


def is_same_host_code(base: BuildEvidence | None, head: BuildEvidence | None) -> bool:
    """Tell whether one machine preprocessed and compiled the same host code for two libraries."""
    parts = [(side.preprocessed, side.host_objects) for side in (base, head) if side is not None]
    return len(parts) == len((base, head)) and parts[0] == parts[1] and all(parts[0])


def is_same_code(base: tuple[Identity | None, BuildEvidence | None], head: tuple[Identity | None, BuildEvidence | None]) -> bool:
    """Tell whether the identities and builds of two sides prove that the same code runs."""
    identity = head[0]
    return identity is not None and base[0] == identity and is_covered(identity) and is_same_host_code(base[1], head[1])


def was_same_code(observation: Observation) -> bool:
    """Tell whether a comparison was not timed, because builds on one machine gave the same code.

    Code that a framework compiles must have been seen: each cubin, each launch, and no other library.
    """
    reading = dict(observation.readings).get(SAME_CODE)
    known = is_covered(observation.identity) or is_complete(observation.jit)
    same = observation.base == observation.identity and known and not observation.samples
    return same and isinstance(reading, Measured) and reading.value == 1.0


GRAPH_LAUNCHES = "graph/launches"
"""The reading of a workload whose time is the slope of two CUDA graphs. Earlier, the time of one graph was divided by its launches."""


def how_timed(observation: Observation) -> str:
    """Return the digest of how times were taken. Those of two runs can be compared if it is the same."""
    collector = observation.identity.collector
    return digest_of(collector, GRAPH_LAUNCHES) if GRAPH_LAUNCHES in dict(observation.readings) else collector


ANCHORED = "comparison/anchor"
"""The reading of a comparison with the anchor. The history keeps it, and no gate judges it."""


def is_anchored(observation: Observation) -> bool:
    """Tell whether this is a comparison with the anchor."""
    return ANCHORED in dict(observation.readings)


def code_digest(machine_code: str, launcher: str, binding: str, subject: str, unique: str = "") -> str:
    """Name code. What no digest covers is never equal to other code, so it needs ``unique``."""
    return digest_of("code", machine_code, launcher, binding, subject, unique)


def workload_digest(workload: Workload) -> str:
    """Digest subject, parameters and seed (not id, roof or tags)."""
    return digest_of(workload.subject, workload.params, workload.seed)


def collector_digest(kind: Kind, protocol: Protocol) -> str:
    """Digest the collector's version and settings."""
    parameters = {Kind.TIMING: (protocol.timing_processes,), Kind.CORRECTNESS: (protocol.repeats,)}.get(kind, ())
    return digest_of(kind, COLLECTOR_VERSIONS[kind], parameters)


def machine_code_digest(build: BuildEvidence, symbols: Iterable[str]) -> str | None:
    """Digest the named entry functions. None if one was not built."""
    digests = []
    for symbol in sorted(set(symbols)):
        entry = build.entry(symbol)
        if entry is None:
            return None
        digests.append((symbol, entry.digest))
    return digest_of(digests)


def workload_identity(
    kind: Kind, workload: Workload, problem: Problem, build: BuildEvidence, protocol: Protocol
) -> Identity | None:
    """Identify measuring ``workload``. None if an entry it launches was not built."""
    machine_code = machine_code_digest(build, problem.entries)
    if machine_code is None or build.error is not None:
        return None
    return _identity(kind, build, machine_code, workload_digest(workload), protocol)


def static_identity(kind: Kind, build: BuildEvidence, symbols: Iterable[str], protocol: Protocol) -> Identity:
    """Return the identity of compiler evidence."""
    return _identity(kind, build, machine_code_digest(build, symbols) or "", "", protocol)


def _identity(kind: Kind, build: BuildEvidence, machine_code: str, workload: str, protocol: Protocol) -> Identity:
    digests = {"launcher": build.launcher, "binding": build.binding, "subject": build.source}
    return Identity(machine_code=machine_code, **digests, workload=workload, collector=collector_digest(kind, protocol))
