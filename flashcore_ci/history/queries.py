"""What pages and detectors read. Every function takes a connection and returns records of ``model/history.py``."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, and_, func, select

from flashcore_ci.history import tables as t
from flashcore_ci.history.packing import DOUBLE, SINGLE, is_finite, unpack
from flashcore_ci.model.history import (
    OUTCOMES,
    Alert,
    AlertSeries,
    Anchor,
    AnchorLink,
    Code,
    Commit,
    EntryFacts,
    Epoch,
    Machine,
    Point,
    Ratio,
    RunRow,
    Series,
    Standing,
    StoredVerdict,
)
from flashcore_ci.model.suite import Roof
from flashcore_ci.model.verdict import Outcome

R = TypeVar("R")
ALL = tuple(Standing)
FEEDS = (Standing.PROTECTED,)
"""The runs that detection may use."""
Ids = Collection[int]


def machines(connection: Connection) -> tuple[Machine, ...]:
    """Return every GPU that a run named."""
    return tuple(_record(Machine, row) for row in connection.execute(select(t.machines).order_by(t.machines.c.id)))


def epochs(connection: Connection) -> dict[int, Epoch]:
    """Return every epoch by its id."""
    by_id = {machine.id: machine for machine in machines(connection)}
    return {row.id: _record(Epoch, row, machine=by_id[row.machine_id]) for row in connection.execute(select(t.epochs))}


def series(connection: Connection, *, suite: str | None = None) -> tuple[Series, ...]:
    """Return every series by suite, workload and machine class."""
    c = t.series.c
    rows = connection.execute(select(t.series) if suite is None else select(t.series).where(c.suite == suite))
    found = (_record(Series, row, roof=Roof(row.roof)) for row in rows)
    return tuple(sorted(found, key=lambda s: (s.suite, s.workload, s.machine_class, s.id)))  # a database sorts as its locale does


def runs(
    connection: Connection,
    *,
    standings: Sequence[Standing] = ALL,
    newest: int | None = None,
    ids: Ids | None = None,
    digest: str = "",
) -> tuple[RunRow, ...]:
    """Return runs, the newest first. ``digest`` is its start in hex."""
    query = (
        select(t.runs, t.commits, t.toolsets.c.tools, t.check_sets.c.count.label("planned"))
        .join(t.commits, t.runs.c.commit_id == t.commits.c.id)
        .join(t.toolsets, t.runs.c.toolset_id == t.toolsets.c.id)
        .join(t.check_sets, t.runs.c.check_set_id == t.check_sets.c.id)
        .where(t.runs.c.standing.in_([standing.value for standing in standings]))
        .order_by(t.runs.c.collected_at.desc(), t.runs.c.digest)
    )
    query = query if ids is None else query.where(t.runs.c.id.in_(ids))
    query = query.where(*_starts_with(digest)) if digest else query
    by_id = {machine.id: machine for machine in machines(connection)}
    return tuple(_run(row, by_id) for row in connection.execute(query.limit(newest)))


def points(
    connection: Connection,
    series_id: int,
    *,
    standings: Sequence[Standing] = FEEDS,
    newest: int | None = None,
    run: int | None = None,
) -> tuple[Point, ...]:
    """Return the points of a series in the order of commits, the ``newest`` of them, or that of one ``run``.

    Points with a position on the protected branch come by it, and all others before them by the time of collection.
    """
    p, r, c, codes, bases = t.points.c, t.runs.c, t.commits.c, t.codes.alias(), t.codes.alias()
    code, base = codes.c, bases.c
    query = (
        select(
            t.points, r.collected_at, r.standing, c.sha, c.position, code.identity, t.layouts.c.names, base.identity.label("base")
        )
        .join(t.runs, p.run_id == r.id)
        .join(t.commits, r.commit_id == c.id)
        .join(codes, p.code_id == code.id, isouter=True)
        .join(bases, p.base_id == base.id, isouter=True)
        .join(t.layouts, p.layout_id == t.layouts.c.id, isouter=True)
        .where(p.series_id == series_id, r.standing.in_([standing.value for standing in standings]))
        .order_by(c.position.is_(None), c.position.desc(), r.collected_at.desc(), r.digest)
        .limit(newest)
    )
    rows = connection.execute(query if run is None else query.where(p.run_id == run)).all()
    more = _more_ratios(connection, series_id, None if newest is run is None else [row.run_id for row in rows])
    pinned = _anchored(connection, series_id)
    shared = _reading_sets(connection, {row.reading_set_id for row in rows})
    return tuple(_point(row, more.get(row.run_id, ()), pinned, shared.get(row.reading_set_id, {})) for row in reversed(rows))


def codes(connection: Connection, ids: Ids) -> dict[int, Code]:
    """Return code with the facts about its entry functions, by ``Point.code_id``."""
    joined = select(t.code_entries.c.code_id, t.entries).join(t.entries, t.code_entries.c.entry_id == t.entries.c.id)
    entries: dict[int, list[EntryFacts]] = defaultdict(list)
    rows = in_parts(connection, joined, t.code_entries.c.code_id, ids)
    for row in sorted(rows, key=lambda row: row.symbol):
        opcodes = tuple((name, count) for name, count in json.loads(row.opcodes))
        entries[row.code_id].append(_record(EntryFacts, row, opcodes=opcodes))
    rows = in_parts(connection, select(t.codes), t.codes.c.id, ids)
    return {row.id: _record(Code, row, entries=tuple(entries[row.id])) for row in rows}


def verdicts(connection: Connection, run_ids: Ids) -> tuple[StoredVerdict, ...]:
    """Return every verdict of these runs that is not a PASS."""
    c = t.verdicts.c
    rows = sorted(in_parts(connection, select(t.verdicts), c.run_id, run_ids), key=lambda v: (v.run_id, v.gate, v.target))
    return tuple(_record(StoredVerdict, row, run=row.run_id, outcome=Outcome(row.outcome)) for row in rows)


def anchors(connection: Connection, *, of: Series | None = None) -> tuple[Anchor, ...]:
    """Return the anchors, the oldest first, of one series or of all."""
    query = select(t.anchors).order_by(t.anchors.c.since, t.anchors.c.id)
    if of is not None:
        query = query.filter_by(suite=of.suite, workload=of.workload, question=of.question)
    links: dict[int, list[AnchorLink]] = defaultdict(list)
    for row in connection.execute(select(t.anchor_links)):
        links[row.anchor_id].append(_record(AnchorLink, row))
    return tuple(
        _record(Anchor, row, commit=row.commit_sha, previous=row.previous_id, links=tuple(links[row.id]))
        for row in connection.execute(query)
    )


def alerts(connection: Connection) -> tuple[Alert, ...]:
    """Return every alert, the newest first."""
    parts: dict[int, list[AlertSeries]] = defaultdict(list)
    for row in connection.execute(select(t.alert_series).order_by(t.alert_series.c.series_id)):
        ids = {"series": row.series_id, "first": row.first_run_id, "last_good": row.last_good_run_id}
        parts[row.alert_id].append(_record(AlertSeries, row, **ids))
    rows = sorted(connection.execute(select(t.alerts)), key=lambda row: (-row.opened_at, row.key))
    return tuple(_record(Alert, row, series=tuple(parts[row.id])) for row in rows)


def counts(connection: Connection) -> dict[str, int]:
    """Count the rows of every table."""
    return {
        name: connection.scalar(select(func.count()).select_from(table)) or 0 for name, table in sorted(t.METADATA.tables.items())
    }


def _starts_with(digest: str) -> tuple[Any, ...]:
    """Compare bytes as a range. ValueError if ``digest`` is not hex."""
    low, high = (bytes.fromhex(digest.ljust(64, fill)) for fill in "0f")
    return (t.runs.c.digest >= low, t.runs.c.digest <= high)


def _more_ratios(connection: Connection, series_id: int, run_ids: Ids | None) -> dict[int, list[Row[Any]]]:
    """Return the ratios to further bases by run."""
    query = (
        select(t.ratios, t.codes.c.identity.label("base"))
        .join(t.codes, t.ratios.c.base_id == t.codes.c.id)
        .where(t.ratios.c.series_id == series_id)
        .order_by(t.ratios.c.run_id, t.codes.c.identity)
    )
    found: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(query) if run_ids is None else in_parts(connection, query, t.ratios.c.run_id, run_ids):
        found[row.run_id].append(row)
    return found


def _anchored(connection: Connection, series_id: int) -> dict[str, int]:
    """Return the newest anchor of this series by code identity."""
    key = [t.anchors.c[name] == t.series.c[name] for name in ("suite", "workload", "question")]
    query = select(t.anchors.c.code, t.anchors.c.id).join(t.series, and_(*key)).where(t.series.c.id == series_id)
    return {row.code: row.id for row in connection.execute(query.order_by(t.anchors.c.id))}


def _ratio(row: Row[Any], pinned: dict[str, int]) -> Ratio:
    return _record(Ratio, row, anchor=pinned.get(row.base))


def _reading_sets(connection: Connection, ids: Iterable[int | None]) -> dict[int, dict[str, float]]:
    c = t.reading_sets.c
    query = select(c.id, c.numbers, t.layouts.c.names).join(t.layouts, c.layout_id == t.layouts.c.id)
    rows = in_parts(connection, query, c.id, {number for number in ids if number is not None})
    return {row.id: unpack(row.names, row.numbers, DOUBLE) for row in rows}


def in_parts(connection: Connection, query: Select[Any], column: Any, ids: Ids, size: int = 500) -> Iterator[Row[Any]]:
    """Yield the rows of these ids, in as many queries as every database takes."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), size):
        yield from connection.execute(query.where(column.in_(ordered[start : start + size])))


def _record(kind: type[R], row: Row[Any], **more: Any) -> R:
    """Fill each field from the column with its name, or from ``more``."""
    return kind(**{name: getattr(row, name) for name in kind.__slots__ if name not in more}, **more)  # type: ignore[attr-defined]


def _run(row: Row[Any], by_id: dict[int, Machine]) -> RunRow:
    values = {
        "standing": Standing(row.standing),
        "dirty": bool(row.dirty),
        "outcome": Outcome(row.outcome),
        "checks": row.planned,
    }
    tools = tuple((name, version) for name, version in json.loads(row.tools))
    machine = by_id.get(row.machine_id)
    return _record(RunRow, row, **values, digest=row.digest.hex(), commit=_record(Commit, row), machine=machine, tools=tools)


def _point(row: Row[Any], more: Sequence[Row[Any]], pinned: dict[str, int], shared: dict[str, float]) -> Point:
    own: dict[str, Any] = {} if row.names is None else unpack(row.names, row.numbers, SINGLE)
    names = ("ms", "ms_std", "megacycles", "megacycles_std", "mhz", "mhz_std")
    return _record(
        Point,
        row,
        **{name: own.pop(name, None) for name in names},
        series=row.series_id,
        run=row.run_id,
        commit=row.sha,
        code=row.identity or "",
        epoch=row.epoch_id,
        standing=Standing(row.standing),
        outcome=OUTCOMES[row.outcome],
        ratios=tuple(_ratio(each, pinned) for each in (row, *more) if each.base_id is not None and is_finite(each.log_ratio)),
        readings={**shared, **own},
    )
