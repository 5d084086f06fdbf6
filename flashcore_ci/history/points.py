"""The points that detectors and pages read: per workload, machine class and epoch, in the order of commits.

Ratios to an anchor that replaced another are moved by what both measured together, so a track has one scale. An anchor that was not
measured with the one before begins a new track. A series without an anchor falls back to the cycles of its runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from flashcore_ci.history import queries
from flashcore_ci.history import tables as t
from flashcore_ci.model.history import Anchor, Point, Ratio, Series, Standing
from flashcore_ci.model.tracks import Track, TrackPoint

Tools = tuple[tuple[str, str], ...]
Link = tuple[int, float, float]
"""The first anchor of a chain, log(anchor / first anchor), and its variance."""


def tracks(
    connection: Connection,
    *,
    suite: str | None = None,
    standings: Collection[Standing] = queries.FEEDS,
    newest: int | None = None,
) -> tuple[Track, ...]:
    """Return every track, by suite, workload, machine class and first point. ``newest``: the last points of each series only."""
    epochs, runs = queries.epochs(connection), _runs(connection)
    found: list[Track] = []
    for series in queries.series(connection, suite=suite):
        points = queries.points(connection, series.id, standings=tuple(standings), newest=newest)
        links = links_of(queries.anchors(connection, of=series), series.machine_class)
        by_epoch: dict[int, list[Point]] = {}
        for point in points:
            if point.epoch is not None:
                by_epoch.setdefault(point.epoch, []).append(point)
        for number, of_epoch in by_epoch.items():
            chains = _anchored(of_epoch, links)
            parts = chains or {0: _absolute(of_epoch, series)}
            named = {chain: tuple(_with_runs(points_of, runs)) for chain, points_of in parts.items()}
            shared: dict[str, Any] = {"series": series, "epoch": epochs[number], "anchored": bool(chains)}
            found += [Track(**shared, chain=chain, points=each) for chain, each in named.items() if each]
    return tuple(found)


def _runs(connection: Connection) -> dict[int, tuple[str, Tools]]:
    """Return bundle and tools by run."""
    parsed = {
        row.id: tuple((name, version) for name, version in json.loads(row.tools))
        for row in connection.execute(select(t.toolsets))
    }
    rows = connection.execute(select(t.runs.c.id, t.runs.c.bundle, t.runs.c.toolset_id))
    return {row.id: (row.bundle, parsed[row.toolset_id]) for row in rows}


def links_of(anchors: Sequence[Anchor], machine_class: str) -> dict[int, Link]:
    """Return every anchor's place in its chain. An anchor that was not measured with the previous one begins a chain."""
    places: dict[int, Link] = {}
    for anchor in anchors:  # the oldest first
        link = next((link for link in anchor.links if link.machine_class == machine_class), None)
        before = places.get(anchor.previous) if anchor.previous is not None else None
        if link is None or before is None:
            places[anchor.id] = (anchor.id, 0.0, 0.0)
        else:
            places[anchor.id] = (before[0], before[1] + link.log_ratio, before[2] + link.standard_error**2)
    return places


def _anchored(points: Iterable[Point], links: Mapping[int, Link]) -> dict[int, list[TrackPoint]]:
    """Return the points with a ratio to an anchor, and those whose code is that of an earlier one, by chain of anchors."""
    found: dict[int, list[TrackPoint]] = {}
    known: dict[str, TrackPoint] = {}
    for point in points:
        ratio, before = point.anchored, known.get(point.code)
        if ratio is not None and ratio.anchor is not None:
            _, place, variance = links[ratio.anchor]
            current = TrackPoint(
                **_plain(point),
                log_ratio=ratio.log_ratio + place,
                **{name: getattr(ratio, name) for name in ("standard_error", "df", "rounds", "anchor")},
                link_error=math.sqrt(variance),
                far=None if ratio.far is None else ratio.far + place,
                **_step(point, ratio),
            )
        elif before is not None and point.code:
            values = {name: getattr(before, name) for name in ("log_ratio", "anchor", "link_error")}
            current = TrackPoint(**_plain(point), **values, standard_error=None)
        else:
            continue
        if point.code:
            known[point.code] = current
        found.setdefault(links[current.anchor or 0][0], []).append(current)
    return found


def _step(point: Point, anchored: Ratio) -> dict[str, Any]:
    """Return the parent's ratio of the same rounds."""
    other = next((r for r in point.ratios if r is not anchored and r.standard_error and r.rounds == anchored.rounds), None)
    if other is None:
        return {}
    return {"parent": other.base, "step": other.log_ratio, "step_error": other.standard_error, "step_far": other.far}


def _absolute(points: Iterable[Point], series: Series) -> list[TrackPoint]:
    """Return the points by their own cycles or time, relative to the first."""
    found: list[TrackPoint] = []
    first: float | None = None
    for point in points:
        value, deviation = getattr(point, series.scale), getattr(point, f"{series.scale}_std")
        if value is None or deviation is None or not value > 0 or not point.samples > 1:
            continue
        first = math.log(value) if first is None else first
        values = {
            "standard_error": deviation / value / math.sqrt(point.samples),
            "df": point.samples - 1.0,
            "rounds": point.samples,
        }
        found.append(TrackPoint(**_plain(point), log_ratio=math.log(value) - first, **values))
    return found


def _plain(point: Point) -> dict[str, Any]:
    """Return what a track's point has of the stored one."""
    names = ("run", "commit", "position", "collected_at", "code", "code_id")
    return {name: getattr(point, name) for name in names} | {"verdict": point.outcome}


def _with_runs(points: Iterable[TrackPoint], runs: Mapping[int, tuple[str, Tools]]) -> Iterable[TrackPoint]:
    """Add bundle and tools, and name the tools that differ from the point before."""
    before: Tools | None = None
    for point in points:
        bundle, tools = runs[point.run]
        bumps = () if before is None else tuple(bumped(before, tools))
        yield replace(point, bundle=bundle, tools=tools, bumps=bumps)
        before = tools


def bumped(before: Tools, now: Tools) -> Iterable[tuple[str, str, str]]:
    """Yield (tool, version before, version now) of every tool that differs. "" is a tool that is not there."""
    old, new = dict(before), dict(now)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name, "") != new.get(name, ""):
            yield name, old.get(name, ""), new.get(name, "")
