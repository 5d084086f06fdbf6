"""Turn the findings of all series into alerts: one per entry function and place in the history. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flashcore_ci.history import unanchored
from flashcore_ci.history.detection import Finding, Kind, rate_of, scan
from flashcore_ci.model.history import AlertSeries, Code, EntryFacts, Point
from flashcore_ci.model.tracks import Track, TrackPoint

MOST_OPCODES = 6
MIN_MOVE = 0.01
"""A reading that moved by less than 1 % is not named."""
SURE = 1.64
"""Standard errors to the middle between slow and fast, of which 5 % exceed it."""
COUNTS = {
    "registers": "registers",
    "spill_store_bytes": "bytes of spill stores",
    "spill_load_bytes": "bytes of spill loads",
    "stack_bytes": "bytes of stack",
    "static_shared_bytes": "bytes of static shared memory",
    "dynamic_shared_bytes": "bytes of dynamic shared memory",
    "waits": "waits",
}
NAMED = ("sol", "stall", "throughput", "occupancy", "power", "clock")
"""Parts of the names of readings that explain a speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """A finding in its track. ``gone``: the newest level is as fast as before the change again. None: undecided."""

    track: Track
    finding: Finding
    entries: frozenset[str]
    gone: bool | None = False

    @property
    def first(self) -> TrackPoint:
        """The first point of the change."""
        return self.track.points[self.finding.first]

    @property
    def last_good(self) -> TrackPoint:
        """The last point before it."""
        return self.track.points[self.finding.last_good]

    @property
    def place(self) -> tuple[int, int]:
        """Positions after the last good commit, up to the first bad one."""
        return _order(self.last_good), _order(self.first)


def detect(tracks: Sequence[Track], codes: Mapping[int, Code]) -> tuple[Detection, ...]:
    """Return what was found in every track, requests to measure again included."""
    rate = rate_of(len({track.series.id for track in tracks}))
    return tuple(_detection(track, finding, codes, tracks) for track in tracks for finding in findings(track, rate))


def remembered(parts: Iterable[AlertSeries], tracks: Sequence[Track], codes: Mapping[int, Code]) -> Iterator[Detection]:
    """Yield these parts of a stored alert as detections, whatever the detector finds now."""
    for part in parts:
        of_series = [track for track in tracks if track.series.id == part.series]
        for track, first in ((each, place) for each in of_series for place, at in enumerate(each.points) if at.run == part.first):
            finding = Finding(
                kind=Kind.SLOWER,
                at=first,
                first=first,
                last_good=max(0, first - 1),
                change=part.log_ratio,
                standard_error=part.standard_error,
                z=part.log_ratio / (part.standard_error or math.inf),
                limit=0.0,
                window=1,
            )
            yield _detection(track, finding, codes, tracks)


def findings(track: Track, rate: float) -> tuple[Finding, ...]:
    """Find changes in one track, by the rule for series with or without an anchor."""
    return scan(track.points, rate) if track.anchored else tuple(_unanchored(track))


def _unanchored(track: Track) -> Iterator[Finding]:
    ends = {False: 0, True: 0}  # peaks that follow one of the same direction show the same change
    for found in unanchored.changes([point.log_ratio for point in track.points]):
        before, first = track.points[found.first - 1], track.points[found.first]
        is_new = not first.code or first.code != before.code  # equal code did not become slower
        if is_new and found.first > ends[found.change > 0]:
            ends[found.change > 0] = found.first + unanchored.FORWARD
            yield Finding(
                kind=Kind.SLOWER if found.change > 0 else Kind.FASTER,
                at=found.first + unanchored.FORWARD,
                first=found.first,
                last_good=found.first - 1,
                change=found.change,
                standard_error=found.standard_error,
                z=found.t if found.change > 0 else -found.t,
                limit=unanchored.LIMIT,
                window=unanchored.FORWARD,
            )


def _detection(track: Track, finding: Finding, codes: Mapping[int, Code], tracks: Sequence[Track]) -> Detection:
    number = track.points[finding.first].code_id
    code = codes.get(number) if number is not None else None
    entries = frozenset(entry.symbol for entry in code.entries) if code else frozenset()
    gone = finding.kind is Kind.SLOWER and _is_gone(track, finding, tracks)
    return Detection(track=track, finding=finding, entries=entries, gone=gone)


def _is_gone(track: Track, finding: Finding, tracks: Sequence[Track]) -> bool | None:
    """Whether the newest code, at 5 %, has less than half of the slowdown, or (False) more. None: undecided.

    Code of before the change is as fast as it was. Other epochs count too: by their code, and where an anchor gives them this scale.
    """
    others = [each for each in tracks if each.series.id == track.series.id and each is not track]
    same = [track, *(each for each in others if track.chain and each.chain == track.chain)]
    newest, last = (max((each.points[-1] for each in found), key=_age) for found in ((track, *others), same))
    before, level = track.points[: finding.first], track.points[finding.first : finding.at + 1]
    for point in (newest, last):
        if _has_code_of(point, before):
            return True
        if _has_code_of(point, level):
            return False if point is newest else None
    later = [p for each in same for p in each.points if p.standard_error is not None and _age(p) >= _age(level[0])]
    sittings, slow = ([point for point in later if _has_code_of(point, code)] for code in ((last,), level))
    if not sittings or not slow:
        return None
    distance = _mean(sittings) - _mean(slow) + finding.change / 2
    # without an anchor a run also scatters as runs do, of which the finding's error is that of means of 12 and up to 24
    scatter = 0.0 if track.anchored else 8 * finding.standard_error**2
    squares = sum(max(scatter, (point.standard_error or 0.0) ** 2) for point in sittings)
    if abs(distance) <= SURE * math.sqrt(squares / len(sittings) ** 2 + finding.standard_error**2):
        return None
    return True if distance < 0 else False if last is newest else None


def _has_code_of(point: TrackPoint, others: Iterable[TrackPoint]) -> bool:
    return any(point is other or (point.code and point.code == other.code) for other in others)


def _mean(points: Sequence[TrackPoint]) -> float:
    return sum(point.log_ratio * point.rounds for point in points) / max(1, sum(point.rounds for point in points))


def _age(point: TrackPoint) -> tuple[bool, int, int]:
    return point.position is not None, _order(point), point.collected_at


def groups(detections: Iterable[Detection]) -> tuple[tuple[Detection, ...], ...]:
    """Group slowdowns that share an entry function and whose places overlap. The largest is first in its group."""
    found: list[list[Detection]] = []
    for each in sorted(detections, key=lambda d: (d.place[1], d.track.series.workload, d.track.series.machine_class)):
        related = [group for group in found if any(_is_related(each, other) for other in group)]
        found = [group for group in found if group not in related]
        found.append([each, *(other for group in related for other in group)])
    ordered = (sorted(group, key=lambda d: (-abs(d.finding.z), d.track.series.workload)) for group in found)
    return tuple(tuple(group) for group in ordered)


def _is_related(one: Detection, other: Detection) -> bool:
    same = bool(one.entries & other.entries) or one.track.series.workload == other.track.series.workload
    (low, high), (other_low, other_high) = one.place, other.place
    return same and low < other_high and other_low < high


def _order(point: TrackPoint) -> int:
    return point.collected_at if point.position is None else point.position


def code_changes(before: Code | None, after: Code | None) -> Iterator[str]:
    """Say what the compiler made different in each entry function."""
    if before is None or after is None:
        return
    old = {entry.symbol: entry for entry in before.entries}
    for entry in after.entries:
        earlier = old.get(entry.symbol)
        parts = ["new entry function"] if earlier is None else list(_entry_changes(earlier, entry))
        if parts:
            yield f"{entry.symbol}: {', '.join(parts)}"
    for name in ("launcher", "binding", "subject"):
        if getattr(before, name) != getattr(after, name):
            yield f"the {name} changed"


def _entry_changes(before: EntryFacts, after: EntryFacts) -> Iterator[str]:
    for name, noun in COUNTS.items():
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"{old} to {new} {noun}"
    old, new = dict(before.opcodes), dict(after.opcodes)
    moved = sorted(((new.get(op, 0) - old.get(op, 0), op) for op in old.keys() | new.keys()), key=lambda m: (-abs(m[0]), m[1]))
    shown = [f"{op} {count:+d}" for count, op in moved[:MOST_OPCODES] if count]
    if shown:
        yield f"opcodes {' '.join(shown)}"
    elif before.machine_code != after.machine_code:
        yield "other machine code with the same opcodes"


def reading_changes(before: Point | None, after: Point | None) -> Iterator[str]:
    """Name speed-of-light, stall and clock readings that moved."""
    if before is None or after is None:
        return
    pairs = [("SM clock (MHz)", before.mhz, after.mhz), ("time (ms)", before.ms, after.ms)]
    pairs += [(name, before.readings.get(name), value) for name, value in sorted(after.readings.items())]
    for name, old, new in pairs:
        is_named = "(" in name or any(part in name for part in NAMED)
        if is_named and old is not None and new is not None and old and abs(new / old - 1.0) >= MIN_MOVE:
            yield f"{name}: {old:.4g} to {new:.4g}"


def tool_changes(points: Iterable[TrackPoint]) -> Iterator[str]:
    """Name every tool that was replaced at these points."""
    bumps = {bump for point in points for bump in point.bumps}
    return (f"{name} {old or 'absent'} to {new or 'absent'}" for name, old, new in sorted(bumps))
