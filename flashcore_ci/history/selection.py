"""What pages read of a large history: an index of all runs, chosen points without their readings, versions and tallies."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, func, select

from flashcore_ci.history import queries
from flashcore_ci.history import tables as t
from flashcore_ci.history.packing import DOUBLE, is_finite, unpack
from flashcore_ci.history.points import links_of
from flashcore_ci.model.dashboard import Dot, RunKey, Tally, Version
from flashcore_ci.model.history import Series, in_order
from flashcore_ci.model.identity import digest_of

SUMMARY = ("ms", "ms_std", "megacycles", "megacycles_std", "mhz")
WORK = ("work/flops", "work/bytes")


def run_keys(connection: Connection) -> list[RunKey]:
    """Return every run in the order of commits: those without a position first, by their time."""
    r, c, m = t.runs.c, t.commits.c, t.machines.c
    query = (
        select(r.id, r.collected_at, c.position, c.committed_at, r.standing, r.suite, m.machine_class)
        .join(t.commits, r.commit_id == c.id)
        .join(t.machines, r.machine_id == m.id, isouter=True)
        .order_by(r.digest.desc())
    )
    rows = [RunKey(*row[:6], row[6] or "") for row in connection.execute(query)]
    return sorted(rows, key=lambda k: in_order(k.position, k.committed_at, k.collected_at))


def runs_of(connection: Connection, series: Series) -> set[int]:
    """Return the runs that have a point of this series."""
    p = t.points.c
    return set(connection.scalars(select(p.run_id).where(p.series_id == series.id)))


def dots(connection: Connection, series: Series, run_ids: Sequence[int]) -> list[Dot]:
    """Return the points of these runs, in their order. Their ratios are to anchors of the newest chain."""
    anchors = _anchor_codes(connection, series)
    layouts = _offsets(connection)
    more = _anchored(connection, series, anchors)
    p = t.points.c
    columns = (p.run_id, p.code_id, p.epoch_id, p.outcome, p.base_id, p.log_ratio, p.standard_error, p.layout_id, p.numbers)
    found: dict[int, Dot] = {}
    chains: dict[int, int] = {}
    query = select(*columns).where(p.series_id == series.id)
    for row in queries.in_parts(connection, query, p.run_id, run_ids):
        run, code, epoch, outcome, base, ratio, error, layout, numbers = tuple(row)
        ratios = (*more.get(run, ()), (base, ratio, error))
        given = [each for each in ratios if each[0] in anchors and is_finite(each[1])]
        ratio, error = None, None
        if given:
            base, ratio, error = max(given, key=lambda each: anchors[each[0]][0])
            ratio += anchors[base][1]
            chains[run] = anchors[base][2]
        ms, ms_std, cycles, cycles_std, mhz = (
            value if at is not None and is_finite(value := struct.unpack_from("<f", numbers, at)[0]) else None
            for at in layouts.get(layout, (None,) * 5)
        )
        value, std = (ms, ms_std) if series.scale == "ms" else (cycles, cycles_std)
        found[run] = Dot(run, code, epoch, outcome, ratio, error, value, std, ms, mhz)
    return _comparable([found[run] for run in run_ids if run in found], chains)


def _comparable(dots: list[Dot], chains: dict[int, int]) -> list[Dot]:
    """Drop ratios to another chain of anchors than the newest. A newest point that was not timed has the ratio of its code."""
    last = next((dot for dot in reversed(dots) if dot.ratio is not None), None)
    if last is None:
        return dots
    same = [dot if chains.get(dot.run) == chains[last.run] else dot._replace(ratio=None, error=None) for dot in dots]
    if dots[-1].code is not None and dots[-1].code == last.code:
        same[-1] = same[-1]._replace(ratio=last.ratio, error=last.error)
    return same


def versions(connection: Connection, dots: Sequence[Dot]) -> list[Version]:
    """Return every code of these points, in the order of its first point."""
    of_code = {dot.code for dot in dots if dot.code is not None}
    c = t.codes.c
    identity = {row.id: row.identity for row in queries.in_parts(connection, select(c.id, c.identity), c.id, of_code)}
    found: dict[str, list[Dot]] = defaultdict(list)
    for dot in dots:
        if dot.code in identity:
            found[identity[dot.code]].append(dot)
    return [Version(mine[-1].code or 0, name, mine[0].run, mine[-1].run, len(mine)) for name, mine in found.items()]


def work(connection: Connection, series: Series, run_ids: Sequence[int]) -> tuple[float | None, float | None]:
    """Return FLOP and bytes of the workload, as the last of these runs that names them says."""
    p, s = t.points.c, t.reading_sets.c
    query = (
        select(p.run_id, t.layouts.c.names, s.numbers)
        .join(t.reading_sets, p.reading_set_id == s.id)
        .join(t.layouts, s.layout_id == t.layouts.c.id)
        .where(p.series_id == series.id, p.run_id.in_(run_ids))
    )
    rows = {row.run_id: row for row in connection.execute(query)}
    newest = next((rows[run] for run in reversed(run_ids) if run in rows), None)
    found = unpack(newest.names, newest.numbers, DOUBLE) if newest else {}
    flops, moved = (found.get(name) for name in WORK)
    return flops, moved


def tallies(connection: Connection, since: int) -> list[Tally]:
    """Count verdicts that are not a PASS since a moment, by outcome and reason, the most frequent first."""
    v, r = t.verdicts.c, t.runs.c
    query = (
        select(v.outcome, v.code, v.gate, func.count(), func.count(v.run_id.distinct()), func.max(v.run_id))
        .join(t.runs, v.run_id == r.id)
        .where(r.collected_at >= since)
        .group_by(v.outcome, v.code, v.gate)
    )
    return sorted((Tally(*row) for row in connection.execute(query)), key=lambda each: (-each.verdicts, each.code, each.gate))


def stages(connection: Connection, run_ids: Collection[int]) -> dict[int, dict[str, float]]:
    """Return the seconds of each kind of evidence by run."""
    r = t.runs.c
    query = select(r.id, r.stages).where(r.stages != "{}")
    return {row.id: json.loads(row.stages) for row in queries.in_parts(connection, query, r.id, run_ids)}


def newest_change(connection: Connection) -> str:
    """Return a digest that differs after any run, verdict, anchor or alert was added, changed or removed."""
    r = t.runs.c
    numbers = [connection.execute(select(func.count(), func.max(r.id), func.max(r.added_at))).one()]
    rows = (connection.execute(select(table).order_by(table.c.id)).all() for table in (t.anchors, t.alerts))
    return digest_of(repr((numbers, *rows)))


def _anchor_codes(connection: Connection, series: Series) -> dict[int, tuple[int, float, int]]:
    """Return (anchor, log(anchor / first of its chain), that first one) by code id. So an anchor that replaced another moves no point."""
    anchors = queries.anchors(connection, of=series)
    places = links_of(anchors, series.machine_class)
    c = t.codes.c
    known = {anchor.code: (anchor.id, places[anchor.id][1], places[anchor.id][0]) for anchor in anchors}
    rows = connection.execute(select(c.id, c.identity).where(c.identity.in_(known))) if known else ()
    return {row[0]: known[row[1]] for row in rows}


def _anchored(
    connection: Connection, series: Series, anchors: dict[int, tuple[int, float, int]]
) -> dict[int, list[tuple[int, float, float | None]]]:
    """Return the further ratios to an anchor by run, as (base, ratio, error)."""
    r = t.ratios.c
    query = select(r.run_id, r.base_id, r.log_ratio, r.standard_error).where(r.series_id == series.id, r.base_id.in_(anchors))
    found: dict[int, list[tuple[int, float, float | None]]] = defaultdict(list)
    for row in connection.execute(query) if anchors else ():
        found[row[0]].append((row[1], row[2], row[3]))
    return found


def _offsets(connection: Connection) -> dict[int, tuple[int | None, ...]]:
    """Return where each layout keeps the summary."""
    found: dict[int, tuple[int | None, ...]] = {}
    for row in connection.execute(select(t.layouts.c.id, t.layouts.c.names)):
        places = {name: 4 * index for index, name in enumerate(json.loads(row.names))}
        found[row.id] = tuple(places.get(name) for name in SUMMARY)
    return found
