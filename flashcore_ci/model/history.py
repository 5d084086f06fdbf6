"""What the history holds, as records that pages and detectors read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from flashcore_ci.model.suite import Roof
from flashcore_ci.model.verdict import Outcome

OUTCOMES = (Outcome.PASS, Outcome.WAIVED, Outcome.INCONCLUSIVE, Outcome.FAIL)
"""From the best to the worst."""


class Standing(StrEnum):
    """How far a run is trusted. Only ``PROTECTED`` feeds detection."""

    PROTECTED = "protected"
    REVIEWED = "unsigned, reviewed"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A GPU. ``memory`` and ``l2`` in bytes."""

    id: int
    name: str
    uuid: str
    machine_class: str
    compute_capability: str
    multiprocessors: int
    memory: int
    l2: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A stretch of points whose absolute numbers may be compared: one GPU, driver, clock policy and collector.

    The order in which runs are added does not matter: equal conditions are one epoch.
    """

    id: int
    machine: Machine
    driver: str
    clock_policy: str
    collector: str

    @property
    def label(self) -> str:
        """The epoch in words."""
        return f"{self.machine.name} {self.machine.uuid[:12]}, driver {self.driver}, {self.clock_policy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A workload of a suite on a class of machines. ``question`` digests subject, parameters and seed.

    ``scale`` decides: ``megacycles``, or ``ms`` if memory-bound.
    """

    id: int
    suite: str
    workload: str
    question: str
    subject: str
    roof: Roof
    scale: str
    machine_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit. ``position`` counts commits on the protected branch's first-parent line (None: unknown). Time in UTC seconds."""

    sha: str
    parent: str = ""
    position: int | None = None
    committed_at: int | None = None
    subject: str = ""


def in_order(position: int | None, committed_at: int | None, collected_at: int) -> tuple[bool, int, int]:
    """Return the key that orders runs by commit: those without a position first, by their time. Equal ones come by digest, backwards."""
    return position is not None, position or committed_at or collected_at, collected_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A stored run. ``digest`` is of its evidence, ``bundle`` of the packed file that holds the raw evidence ("" if unknown)."""

    id: int
    digest: str
    bundle: str
    suite: str
    commit: Commit
    branch: str
    standing: Standing
    dirty: bool
    collected_at: int
    added_at: int
    outcome: Outcome
    headline: str
    machine: Machine | None
    driver: str
    tools: tuple[tuple[str, str], ...]
    checks: int
    seconds: float
    invocation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """log(head / base) of one sitting, and ``far`` of its farthest round. ``anchor``: the anchor that ``base`` is, or None (the parent, or any other commit).

    Equal code was not timed, so it has no ``standard_error``. ``base`` is a code identity as ``Code.identity``.
    """

    base: str
    anchor: int | None
    log_ratio: float
    standard_error: float | None
    df: float
    rounds: int
    far: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One workload in one run: means over fresh processes, with their standard deviations.

    ``code`` is a code identity. ``readings`` are all other measured values (SOL, errors, findings, power) by metric.
    """

    series: int
    run: int
    commit: str
    position: int | None
    collected_at: int
    standing: Standing
    code: str
    code_id: int | None
    epoch: int | None
    outcome: Outcome
    samples: int
    ms: float | None
    ms_std: float | None
    megacycles: float | None
    megacycles_std: float | None
    mhz: float | None
    mhz_std: float | None
    ratios: tuple[Ratio, ...] = ()
    readings: Mapping[str, float] = field(default_factory=dict)

    @property
    def anchored(self) -> Ratio | None:
        """The ratio to the newest anchor that was measured with it."""
        return max((ratio for ratio in self.ratios if ratio.anchor is not None), key=lambda r: r.anchor or 0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFacts:
    """What the compiler said of one entry function. Bytes are per thread, shared memory per block."""

    symbol: str
    machine_code: str
    registers: int
    highest_register: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    waits: int
    opcodes: tuple[tuple[str, int], ...]


COUNTS = EntryFacts.__slots__[2:-1]
"""The fields of ``EntryFacts`` that are whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Code as measured. ``identity`` digests machine code, launcher, binding and subject: equal code has an equal identity."""

    id: int
    identity: str
    machine_code: str
    launcher: str
    binding: str
    subject: str
    entries: tuple[EntryFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """A verdict that is not a PASS. ``record`` is the whole verdict as JSON, as in ``report.json``."""

    run: int
    gate: str
    target: str
    outcome: Outcome
    code: str
    message: str
    record: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorLink:
    """log(this anchor / the previous one) on a class of machines, measured together."""

    machine_class: str
    log_ratio: float
    standard_error: float
    df: float
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The pinned code that a workload is compared with. ``code`` is a code identity, ``previous`` the anchor that it replaced."""

    id: int
    suite: str
    workload: str
    question: str
    code: str
    commit: str
    since: int
    reason: str
    previous: int | None = None
    links: tuple[AnchorLink, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSeries:
    """What an alert says of one series. ``first`` and ``last_good`` are runs."""

    series: int
    first: int
    last_good: int | None
    log_ratio: float
    standard_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert as stored: its file in git has the same ``key``. ``until`` is an ISO day or "". Times in UTC seconds."""

    key: str
    state: str
    opened_at: int
    closed_at: int | None
    owner: str
    reason: str
    until: str
    series: tuple[AlertSeries, ...]
