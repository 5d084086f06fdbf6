"""Write runs, anchors and alerts, and remove old runs. Each function is one part of a transaction of ``database.write``."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Table, delete, func, or_, select, update

from flashcore_ci.history import tables as t
from flashcore_ci.history.anchors import Chain
from flashcore_ci.history.cells import Row
from flashcore_ci.history.measured import PointRows
from flashcore_ci.history.packing import DOUBLE, SINGLE, layout, pack
from flashcore_ci.history.rows import RunRows, content_digest
from flashcore_ci.model.history import Alert, Anchor, AnchorLink, Standing

STANDINGS = (Standing.OTHER, Standing.REVIEWED, Standing.PROTECTED)
"""From the lowest to the highest. A run that is added again may rise, and never falls."""
OF_RUN = (t.points, t.ratios, t.verdicts)
CHUNK = 500
NO_RATIO = dict.fromkeys(("base_id", "log_ratio", "standard_error", "df", "rounds", "far"))


class Added(StrEnum):
    """What became of a run."""

    NEW = "added"
    KNOWN = "already there"
    RAISED = "already there, now with a higher standing"


def add_run(connection: Connection, rows: RunRows) -> Added:
    """Store a run once. The same evidence with a higher standing replaces what the lower one said."""
    c = t.runs.c
    query = select(c.id, c.standing, c.bundle).where(c.digest == rows.run["digest"]).with_for_update()
    present = connection.execute(query).one_or_none()
    if present is not None and not _is_higher(rows.run["standing"], present.standing):
        if rows.run["bundle"] and not present.bundle:
            connection.execute(update(t.runs).where(c.id == present.id).values(bundle=rows.run["bundle"]))
        return Added.KNOWN
    machine_id = share(connection, t.machines, [rows.machine])[0] if rows.machine else None
    shared = {"commit_id": (t.commits, rows.commit), "toolset_id": (t.toolsets, rows.toolset)}
    shared |= {"check_set_id": (t.check_sets, rows.check_set)}
    ids = {name: share(connection, table, [row])[0] for name, (table, row) in shared.items()}
    values = {**rows.run, **ids, "machine_id": machine_id}
    if present is not None:
        for table in OF_RUN:
            connection.execute(delete(table).where(table.c.run_id == present.id))
        values["bundle"] = values["bundle"] or present.bundle
        connection.execute(update(t.runs).where(c.id == present.id).values(values))
        run_id = present.id
    else:
        run_id = connection.scalar(t.runs.insert().returning(c.id), values)
    _add_points(connection, run_id, machine_id, rows.points)
    _insert(connection, t.verdicts, [{**verdict, "run_id": run_id} for verdict in rows.verdicts])
    for chain in rows.anchors:
        _add_chain(connection, chain)
    return Added.NEW if present is None else Added.RAISED


def share(connection: Connection, table: Table, rows: Sequence[Row]) -> list[int]:
    """Return the ids of rows that many runs share, and make those that are new."""
    digests = [content_digest(row) for row in rows]
    wanted = dict(zip(digests, rows, strict=True))
    known = _ids(connection, table, wanted)
    if new := sorted(wanted.keys() - known.keys()):  # sorted, so that two writers wait for each other in one order
        insert = _insert_of(connection)(table).on_conflict_do_nothing(index_elements=["digest"])
        made = connection.execute(
            insert.returning(table.c.digest, table.c.id), [{**wanted[digest], "digest": digest} for digest in new]
        )
        known |= {row.digest: row.id for row in made}
        if others := wanted.keys() - known.keys():  # another writer was quicker
            known |= _ids(connection, table, others)
    return [known[digest] for digest in digests]


def add_anchor(connection: Connection, anchor: Anchor, links: Iterable[AnchorLink] = ()) -> int:
    """Store an anchor once, and what it measured against the previous one. Return its id (that of ``anchor`` does not count)."""
    names = ("suite", "workload", "question", "code", "since", "reason")
    row = {name: getattr(anchor, name) for name in names} | {"commit_sha": anchor.commit, "previous_id": anchor.previous}
    number = share(connection, t.anchors, [row])[0]
    rows = [{name: getattr(link, name) for name in AnchorLink.__slots__} | {"anchor_id": number} for link in links]
    classes, c = {row["machine_class"] for row in rows}, t.anchor_links.c
    connection.execute(delete(t.anchor_links).where(c.anchor_id == number, c.machine_class.in_(classes)))
    _insert(connection, t.anchor_links, rows)
    return number


def _add_chain(connection: Connection, chain: Chain) -> None:
    """Store the anchors of one workload, each after the one that it replaced."""
    pinned: int | None = None
    for row in chain:
        number = add_anchor(connection, replace(row.anchor, previous=pinned), row.links)
        pinned = pinned if row.is_copy else number


def put_alert(connection: Connection, alert: Alert) -> None:
    """Store an alert, or replace the one with its key."""
    names = ("key", "state", "opened_at", "closed_at", "owner", "reason", "until")
    row = {name: getattr(alert, name) for name in names}
    number = connection.scalar(select(t.alerts.c.id).where(t.alerts.c.key == alert.key).with_for_update())
    if number is None:
        number = connection.scalar(t.alerts.insert().returning(t.alerts.c.id), row)
    else:
        connection.execute(update(t.alerts).where(t.alerts.c.id == number).values(row))
        connection.execute(delete(t.alert_series).where(t.alert_series.c.alert_id == number))
    _insert(
        connection,
        t.alert_series,
        [
            {"alert_id": number, "series_id": part.series, "first_run_id": part.first, "last_good_run_id": part.last_good}
            | {"log_ratio": part.log_ratio, "standard_error": part.standard_error}
            for part in alert.series
        ],
    )


def retain(connection: Connection, *, before: int, standings: Collection[Standing], dry_run: bool = False) -> int:
    """Remove runs of these standings that were collected before (UTC seconds), and what only they used. Return how many.

    Runs that an alert names stay. Other writers wait.
    """
    named = select(t.alert_series.c.first_run_id).union(
        select(t.alert_series.c.last_good_run_id).where(t.alert_series.c.last_good_run_id.is_not(None))
    )
    c = t.runs.c
    old = select(c.id).where(c.collected_at < before, c.standing.in_([s.value for s in standings]), c.id.not_in(named))
    count = connection.scalar(select(func.count()).select_from(old.subquery())) or 0
    if dry_run or not count:
        return count
    for table in (*OF_RUN, t.runs):
        connection.execute(delete(table).where((table.c.id if table is t.runs else table.c.run_id).in_(old)))
    _remove_unused(connection)
    return count


def _remove_unused(connection: Connection) -> None:
    """Remove shared rows that no row names. A series stays while an alert names it, code while a point, a ratio or an anchor does."""
    p, r = t.points.c, t.ratios.c
    anchored = select(t.codes.c.id).where(t.codes.c.identity.in_(select(t.anchors.c.code)))
    users: Mapping[Table, tuple[Any, ...]] = {
        t.codes: (select(p.code_id), select(p.base_id), select(r.base_id), anchored),
        t.epochs: (select(p.epoch_id),),
        t.reading_sets: (select(p.reading_set_id),),
        t.layouts: (select(p.layout_id), select(t.reading_sets.c.layout_id)),
        t.series: (select(p.series_id), select(r.series_id), select(t.alert_series.c.series_id)),
        t.machines: (select(t.runs.c.machine_id), select(t.epochs.c.machine_id)),
        t.commits: (select(t.runs.c.commit_id),),
        t.toolsets: (select(t.runs.c.toolset_id),),
        t.check_sets: (select(t.runs.c.check_set_id),),
    }
    for table, queries in users.items():
        used = [table.c.id.in_(query.where(query.selected_columns[0].is_not(None))) for query in queries]
        unused = ~or_(*used)
        if table is t.codes:
            connection.execute(delete(t.code_entries).where(t.code_entries.c.code_id.in_(select(table.c.id).where(unused))))
        connection.execute(delete(table).where(unused))
    entries = select(t.code_entries.c.entry_id)
    connection.execute(delete(t.entries).where(t.entries.c.id.not_in(entries)))


def _is_higher(given: str, present: str) -> bool:
    return STANDINGS.index(Standing(given)) > STANDINGS.index(Standing(present))


def _add_points(connection: Connection, run_id: int, machine_id: int | None, points: Sequence[PointRows]) -> None:
    series = share(connection, t.series, [point.series for point in points])
    epochs = _optional(connection, t.epochs, [point.epoch and {**point.epoch, "machine_id": machine_id} for point in points])
    codes = _add_codes(connection, points)
    bases = iter(share(connection, t.codes, [code for point in points for code, _ in point.ratios]))
    layouts = _layouts(connection, points)
    sets = [
        {"layout_id": layouts[layout(point.shared)], "numbers": pack(point.shared, DOUBLE)} if point.shared else None
        for point in points
    ]
    shared = _optional(connection, t.reading_sets, sets)
    rows, ratios = [], []
    for index, point in enumerate(points):
        key = {"series_id": series[index], "run_id": run_id}
        own = {"layout_id": layouts.get(layout(point.own)), "numbers": pack(point.own, SINGLE) if point.own else None}
        ids = {"code_id": codes[index], "epoch_id": epochs[index], "reading_set_id": shared[index]}
        first, *others = [{**ratio, "base_id": next(bases)} for _, ratio in point.ratios] or [{}]
        rows.append({**NO_RATIO, **key, **point.point, **own, **ids, **first})
        ratios += [{**key, **ratio} for ratio in others]
    _insert(connection, t.points, rows)
    _insert(connection, t.ratios, ratios)


def _add_codes(connection: Connection, points: Sequence[PointRows]) -> list[int | None]:
    """Store code with its entry functions. What a run says of them is part of the row's digest."""
    entries = share(connection, t.entries, [entry for point in points for entry in point.entries])
    rest = iter(entries)
    of_point = [{next(rest) for _ in point.entries} for point in points]
    digests = [[content_digest(entry).hex() for entry in point.entries] for point in points]
    rows = [
        point.code and {**point.code, "facts": content_digest({"entries": sorted(digests[index])}).hex()}
        for index, point in enumerate(points)
    ]
    codes = _optional(connection, t.codes, rows)
    pairs = {(code, entry) for code, each in zip(codes, of_point, strict=True) for entry in each if code is not None}
    if pairs:
        c = t.code_entries.c
        known = connection.execute(select(c.code_id, c.entry_id).where(c.code_id.in_({code for code, _ in pairs})))
        _insert_missing(connection, pairs - {(row.code_id, row.entry_id) for row in known})
    return codes


def _insert_missing(connection: Connection, pairs: Iterable[tuple[int, int]]) -> None:
    rows = [{"code_id": code, "entry_id": entry} for code, entry in sorted(pairs)]
    if rows:
        connection.execute(_insert_of(connection)(t.code_entries).on_conflict_do_nothing(), rows)


def _insert_of(connection: Connection) -> Any:
    """Return the insert of this database, which can skip what is there. The other's module is slow to import."""
    return importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert


def _layouts(connection: Connection, points: Sequence[PointRows]) -> dict[str, int]:
    names = sorted({layout(values) for point in points for values in (point.own, point.shared) if values})
    return dict(zip(names, share(connection, t.layouts, [{"names": name} for name in names]), strict=True))


def _optional(connection: Connection, table: Table, rows: Sequence[Row | None]) -> list[int | None]:
    ids = iter(share(connection, table, [row for row in rows if row]))
    return [next(ids) if row else None for row in rows]


def _ids(connection: Connection, table: Table, digests: Iterable[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    ordered = sorted(digests)
    for start in range(0, len(ordered), CHUNK):
        query = select(table.c.digest, table.c.id).where(table.c.digest.in_(ordered[start : start + CHUNK]))
        found |= {row.digest: row.id for row in connection.execute(query)}
    return found


def _insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    if rows:
        connection.execute(table.insert(), rows)
