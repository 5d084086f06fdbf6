"""What the pages of the dashboard show, as records. ``run/dashboard_source.py`` fills them from the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from flashcore_ci.model.history import Code, Epoch, Machine, RunRow, Series, StoredVerdict


class RunKey(NamedTuple):
    """What orders and groups a run."""

    id: int
    collected_at: int
    position: int | None
    committed_at: int | None
    standing: str
    suite: str
    machine_class: str


class Dot(NamedTuple):
    """A point of a series. ``ratio`` is log(head / anchor), and ``error`` its standard error (None: equal code, not timed).

    ``value`` and ``std`` are in the series' own scale. ``outcome`` is an index of ``OUTCOMES``.
    """

    run: int
    code: int | None
    epoch: int | None
    outcome: int
    ratio: float | None
    error: float | None
    value: float | None
    std: float | None
    ms: float | None
    mhz: float | None


class Version(NamedTuple):
    """A code that a series was measured with: its newest id, its first and last run, and how many of the shown points have it."""

    code: int
    identity: str
    first: int
    last: int
    runs: int


class Tally(NamedTuple):
    """How often a gate gave an outcome and a reason, in how many runs, and the newest of them."""

    outcome: str
    code: str
    gate: str
    verdicts: int
    runs: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A series with its shown points in the order of commits. ``key`` names its files.

    ``total`` counts all of its points. The first ``sampled`` of ``dots`` are 1 of many, and the rest are all that came after.
    """

    key: str
    series: Series
    dots: tuple[Dot, ...]
    total: int
    sampled: int = 0
    versions: tuple[Version, ...] = ()
    flops: float | None = None
    bytes: float | None = None

    @property
    def is_anchored(self) -> bool:
        """Whether the newest point has a ratio to an anchor."""
        return bool(self.dots) and self.dots[-1].ratio is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPart:
    """What an alert says of one line. ``first`` is a run."""

    line: str
    first: int
    log_ratio: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """An alert as pages show it. Times in UTC seconds. ``note`` says what changed."""

    key: str
    state: str
    owner: str
    reason: str
    until: str
    opened_at: int
    closed_at: int | None
    parts: tuple[AlertPart, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that the pages show. ``runs`` are those that a page names, ``recent`` those of the last weeks.

    ``detailed``: runs that have a page of their own, newest first. ``now`` in UTC seconds.
    """

    now: int
    total_runs: int
    lines: tuple[Line, ...]
    runs: Mapping[int, RunRow]
    recent: tuple[RunRow, ...]
    detailed: tuple[int, ...]
    machines: tuple[Machine, ...]
    epochs: Mapping[int, Epoch]
    codes: Mapping[int, Code]
    verdicts: tuple[StoredVerdict, ...] = ()
    tallies: tuple[Tally, ...] = ()
    alerts: tuple[AlertView, ...] = ()
    stages: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
