"""One workload over commits on one machine class and epoch, as detectors and pages read it."""

from __future__ import annotations

from dataclasses import dataclass

from flashcore_ci.model.history import Epoch, Series
from flashcore_ci.model.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackPoint:
    """One commit of a track. ``log_ratio`` is log(head / anchor), or log(head / first point) without an anchor.

    Without a ``standard_error`` it was not timed: its code is that of an earlier point or of the anchor, and so is the value.
    ``link_error`` is the standard error of all replaced anchors together. Points of one anchor share it. ``code`` is a code
    identity, ``bundle`` the digest of the raw evidence ("" if unknown), ``anchor`` an id of ``Anchor``. ``tools`` are (name, version),
    and ``bumps`` those that differ from the point before as (name, before, now). ``step`` is log(head / parent) of the same rounds.
    ``far`` and ``step_far``: the farthest round.
    """

    run: int
    commit: str
    position: int | None
    collected_at: int
    log_ratio: float
    standard_error: float | None
    code: str
    code_id: int | None
    verdict: Outcome
    df: float = 0.0
    rounds: int = 0
    bundle: str = ""
    anchor: int | None = None
    link_error: float = 0.0
    parent: str = ""
    step: float = 0.0
    step_error: float = 0.0
    far: float | None = None
    step_far: float | None = None
    tools: tuple[tuple[str, str], ...] = ()
    bumps: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The points of a series in one epoch, in the order of commits. Another epoch does not alarm.

    ``anchored``: the points are ratios to an anchor. Else they come from the run's own cycles (or time, if memory-bound).
    ``chain`` is the first of its anchors (0: none). Tracks of one series and chain have one scale.
    """

    series: Series
    epoch: Epoch
    anchored: bool
    points: tuple[TrackPoint, ...]
    chain: int = 0
