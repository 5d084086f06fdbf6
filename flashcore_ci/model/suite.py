"""What a suite declares: workloads, gates, waivers, devices. Data only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.model.codes import Code
from flashcore_ci.model.options import DEFAULTS, CompileOptions

Scalar = str | int | float | bool


class Roof(StrEnum):
    """The ceiling of a workload. ``balanced``: no speed-of-light gate applies."""

    COMPUTE = "compute"
    MEMORY = "memory"
    BALANCED = "balanced"


class Kind(StrEnum):
    """A kind of evidence: one collector each, except ``bar`` and ``alerts``."""

    ALERTS = "alerts"
    BAR = "bar"
    BUILD = "build"
    RESOURCES = "resources"
    CORRECTNESS = "correctness"
    SANITIZER = "sanitizer"
    PROFILE = "profile"
    TIMING = "timing"
    COMPARISON = "comparison"
    MACHINE_CODE = "machine-code"


STATIC_KINDS = frozenset({Kind.ALERTS, Kind.BAR, Kind.BUILD, Kind.RESOURCES})
"""Evidence from the compiler, the comparison of suites, and the alerts. It needs no GPU and is never recorded."""
BAR = "bar"
"""The id of the built-in gate that compares the base's suite with head's. No suite may use it."""
ALERTS = "alerts"
"""The id of the built-in gate that asks whether every alert is decided. No suite may use it."""


class Scope(StrEnum):
    """The kind of a check's target, which its evidence determines."""

    SUBJECT = "subject"
    ENTRY = "entry"
    WORKLOAD = "workload"


def scope_of(kind: Kind) -> Scope:
    """Return the scope of checks on this evidence."""
    if kind is Kind.RESOURCES:
        return Scope.ENTRY
    return Scope.SUBJECT if kind in STATIC_KINDS else Scope.WORKLOAD


class Rule(StrEnum):
    """How a value is compared with its limit. NaN satisfies none of them."""

    LESS = "<"
    AT_MOST = "<="
    AT_LEAST = ">="
    EQUAL = "=="


class Statistic(StrEnum):
    """What is judged: the reading itself, or a statistic over its samples."""

    VALUE = "value"
    RELATIVE_STD = "relative-std"
    SLOWDOWN = "slowdown"
    DRIFT = "drift"


class Severity(StrEnum):
    """A red blocking gate blocks the merge. A red advisory gate is shown."""

    BLOCKING = "blocking"
    ADVISORY = "advisory"


class Trust(StrEnum):
    """Whether a subject's ``run`` may share a process with the worker."""

    FULL = "full"
    NONE = "none"


GPUS = "gpus"
"""The parameter with the number of GPUs of a workload, from its subject's table. It is absent for one."""
MAX_GPUS = 8
GROUP_KINDS = frozenset({Kind.CORRECTNESS, Kind.SANITIZER, Kind.TIMING})
"""Evidence that a group of GPUs can give. ncu repeats a launch, which no other rank would answer."""
ISOLATED_KINDS = frozenset({Kind.CORRECTNESS, Kind.TIMING, Kind.COMPARISON})
"""Evidence that an isolated candidate can give. The other tools must be in the process that they observe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRef:
    """A kernel under test: its name and its subject file (relative to the checkout).

    ``candidate``: the file with ``run``, if another one, and the files that it may read. With ``trust`` none it is isolated.
    """

    name: str
    file: str
    trust: Trust = Trust.FULL
    candidate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One problem with a stable id. The subject gets ``params``, sorted by name."""

    id: str
    subject: str
    params: tuple[tuple[str, Scalar], ...]
    roof: Roof
    seed: int
    collect: tuple[Kind, ...]
    tags: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """The number of GPUs that run it together."""
        return int(dict(self.params).get(GPUS, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit for targets that match the glob ``on``. The first match counts."""

    on: str
    value: float
    unit: str
    severity: Severity
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A question about targets that ``on``, ``roofs`` and ``tags`` select (empty: all).

    ``peak``: the suite's ceiling in byte/s of which the metric is a share (None: the evidence holds the metric itself).
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
    peak: float | None = None


FINDING = re.compile(
    r"(?P<kernel>\w[^\n]*?) (?P<file>[^\s*?]+):(?P<line>\d+|\*) (?P<message>[^\s*]{3,} [^\s*][^*\n]{2,})(?P<rest>\*?)"
)
"""``Waiver.finding``. Kernel, file and at least two words of the message are literal. Line and the message's end may be ``*``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A reading that may break its limit until a day or for one pair.

    ``expires`` is the last day (ISO date, UTC). ``pair`` is the verdict's pair of digests. Exactly one is set. ``codes`` are the
    reasons that it covers. ``finding`` (``KERNEL FILE:LINE MESSAGE``) restricts it to findings that all match.
    """

    gate: str
    target: str
    reason: str
    owner: str
    expires: str = ""
    pair: str = ""
    finding: str = ""
    codes: tuple[Code, ...] = (Code.OVER_LIMIT, Code.UNDER_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ridge:
    """A device's datasheet ceilings, in FLOP/s and byte/s. ``link``: of one direction between GPUs (None: not given)."""

    device: str
    flops: float
    bandwidth: float
    link: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """Versions from ``first`` up to, but not, ``below``."""

    first: str
    below: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepts:
    """The evidence that counts: devices by name, driver, tools by name, and how old it may be for ``require``."""

    devices: tuple[str, ...]
    driver: VersionRange
    tools: tuple[tuple[str, VersionRange], ...]
    max_age_days: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How much to measure. These numbers are not thresholds."""

    timing_processes: int
    repeats: int
    timeouts: tuple[tuple[Kind, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One checked suite file. ``sources`` maps each value to its ``file:key``. ``accepts``: None for evidence of any machine.

    ``build`` compiles the subjects that do not say how they are compiled.
    ``defaults`` has each key that the file omits, and the value that it got.
    """

    name: str
    file: str
    subjects: tuple[SubjectRef, ...]
    workloads: tuple[Workload, ...]
    gates: tuple[Gate, ...]
    waivers: tuple[Waiver, ...]
    ridge: Ridge
    protocol: Protocol
    sources: tuple[tuple[str, str], ...] = ()
    accepts: Accepts | None = None
    build: CompileOptions = DEFAULTS
    defaults: tuple[tuple[str, str], ...] = ()
