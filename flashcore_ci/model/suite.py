"""What a suite declares: workloads, gates, waivers, devices. Data only; the reader is ``flashcore_ci.suite``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Scalar = str | int | float | bool


class Roof(StrEnum):
    """Which ceiling a workload runs into; ``balanced`` means that no speed-of-light gate applies."""

    COMPUTE = "compute"
    MEMORY = "memory"
    BALANCED = "balanced"


class Kind(StrEnum):
    """A kind of evidence: one collector each."""

    BUILD = "build"
    RESOURCES = "resources"
    CORRECTNESS = "correctness"
    SANITIZER = "sanitizer"
    PROFILE = "profile"
    TIMING = "timing"
    COMPARISON = "comparison"


STATIC_KINDS = frozenset({Kind.BUILD, Kind.RESOURCES})
"""Evidence that comes out of the compiler: it needs no GPU and is never recorded evidence."""


class Scope(StrEnum):
    """What a check's target is: a subject (``build``), an entry function (``resources``) or a workload (all others)."""

    SUBJECT = "subject"
    ENTRY = "entry"
    WORKLOAD = "workload"


def scope_of(kind: Kind) -> Scope:
    """The scope of every check on evidence of this kind."""
    return {Kind.BUILD: Scope.SUBJECT, Kind.RESOURCES: Scope.ENTRY}.get(kind, Scope.WORKLOAD)


class Rule(StrEnum):
    """How a value is compared with its limit. NaN satisfies none of them."""

    LESS = "<"
    AT_MOST = "<="
    AT_LEAST = ">="
    EQUAL = "=="


class Statistic(StrEnum):
    """What is judged: the reading itself, or a statistic over the samples of the same name."""

    VALUE = "value"
    RELATIVE_STD = "relative-std"
    SLOWDOWN = "slowdown"
    DRIFT = "drift"


class Severity(StrEnum):
    """A red blocking gate blocks the merge; a red advisory gate is shown."""

    BLOCKING = "blocking"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRef:
    """A kernel under test: a name and the Python file that knows how to build and run it (relative to the checkout)."""

    name: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One problem with a stable id. ``params`` go to the subject as they are, sorted by name."""

    id: str
    subject: str
    params: tuple[tuple[str, Scalar], ...]
    roof: Roof
    seed: int
    collect: tuple[Kind, ...]
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The limit for those targets of a gate whose id matches the glob ``on``; the first that matches counts."""

    on: str
    value: float
    unit: str
    severity: Severity
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One question asked of every target that ``on`` (globs over ids), ``roofs`` and ``tags`` let through.

    ``roofs`` and ``tags`` select workloads only; empty means all.
    """

    id: str
    title: str
    evidence: Kind
    metric: str
    statistic: Statistic
    min_samples: int
    rule: Rule
    limits: tuple[Limit, ...]
    on: tuple[str, ...]
    roofs: tuple[Roof, ...]
    tags: tuple[str, ...]
    why: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A red or inconclusive check that may pass: until the end of the day ``expires`` (ISO date, UTC), or for one ``pair``.

    An intended slow-down does not become right on a day: it is waived for the pair of codes that was compared, as the verdict
    names it (``pair``, digests of what two commits build; the hash of a commit could not stand in that commit). One of the two
    is empty. ``finding`` (a glob over ``KERNEL FILE:LINE MESSAGE``) makes it a suppression: it holds only while everything that
    the tool reported there matches.
    """

    gate: str
    target: str
    reason: str
    owner: str
    expires: str = ""
    pair: str = ""
    finding: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ridge:
    """A device's datasheet ceilings, in FLOP/s and byte/s; their quotient is the ridge of the roofline."""

    device: str
    flops: float
    bandwidth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How much is measured, per suite: numbers that collectors need and that are no thresholds."""

    timing_processes: int
    repeats: int
    timeouts: tuple[tuple[Kind, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One suite file, read and checked. ``sources`` says for each value where it came from (``file:key``)."""

    name: str
    file: str
    subjects: tuple[SubjectRef, ...]
    workloads: tuple[Workload, ...]
    gates: tuple[Gate, ...]
    waivers: tuple[Waiver, ...]
    ridge: Ridge
    protocol: Protocol
    sources: tuple[tuple[str, str], ...] = ()
