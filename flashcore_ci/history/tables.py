"""The tables. ``docs/history.md`` explains them, ``migrations/`` makes them.

``points`` and ``ratios`` are the large tables, without foreign keys, which would need an index each. A point has its first ratio.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger as Big
from sqlalchemy import Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, SmallInteger, Table, Text
from sqlalchemy.schema import SchemaItem

from flashcore_ci.model.history import COUNTS

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)
DIGEST = LargeBinary(32)


def _id() -> Column[Any]:
    return Column("id", Integer, primary_key=True)


def _shared(name: str, *columns: SchemaItem) -> Table:
    return Table(name, METADATA, _id(), Column("digest", DIGEST, nullable=False, unique=True), *columns)


def _text(name: str) -> Column[Any]:
    return Column(name, Text, nullable=False)


def _number(name: str, kind: Any = Big) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _to(name: str, target: str, *, nullable: bool = False, primary_key: bool = False) -> Column[Any]:
    return Column(name, Integer, ForeignKey(f"{target}.id"), nullable=nullable, primary_key=primary_key)


machines = _shared(
    "machines",
    *map(_text, ("name", "uuid", "machine_class", "compute_capability")),
    *map(_number, ("multiprocessors", "memory", "l2")),
)
epochs = _shared("epochs", _to("machine_id", "machines"), *map(_text, ("driver", "clock_policy", "collector")))
toolsets = _shared("toolsets", _text("tools"))
commits = _shared("commits", *map(_text, ("sha", "parent", "subject")), Column("position", Integer), Column("committed_at", Big))
check_sets = _shared("check_sets", _number("count", Integer), Column("checks", LargeBinary, nullable=False))
series = _shared("series", *map(_text, ("suite", "workload", "question", "subject", "roof", "scale", "machine_class")))
entries = _shared(
    "entries",
    *map(_text, ("symbol", "machine_code")),
    *map(_number, COUNTS),
    _text("opcodes"),
)
codes = _shared(
    "codes",
    *map(_text, ("identity", "machine_code", "launcher", "binding", "subject", "facts")),
    Index("ix_codes_identity", "identity"),
)
code_entries = Table(
    "code_entries",
    METADATA,
    _to("code_id", "codes", primary_key=True),
    _to("entry_id", "entries", primary_key=True),
    Index("ix_code_entries_entry_id", "entry_id"),
)
layouts = _shared("layouts", _text("names"))
reading_sets = _shared("reading_sets", _to("layout_id", "layouts"), Column("numbers", LargeBinary, nullable=False))
runs = Table(
    "runs",
    METADATA,
    _id(),
    Column("digest", DIGEST, nullable=False, unique=True),
    *map(_text, ("bundle", "suite", "branch", "standing", "outcome", "headline", "driver", "invocation")),
    _to("commit_id", "commits"),
    _to("machine_id", "machines", nullable=True),
    _to("toolset_id", "toolsets"),
    _to("check_set_id", "check_sets"),
    *map(_number, ("collected_at", "added_at")),
    _number("dirty", SmallInteger),
    _number("seconds", Float(53)),
    Column("stages", Text, nullable=False, server_default="{}"),
    Index("ix_runs_collected_at", "collected_at"),
    Index("ix_runs_commit_id", "commit_id"),
)
points = Table(
    "points",
    METADATA,
    Column("series_id", Integer, primary_key=True),
    Column("run_id", Integer, primary_key=True),
    Column("code_id", Integer),
    Column("epoch_id", Integer),
    _number("outcome", SmallInteger),
    _number("samples", Integer),
    Column("base_id", Integer),
    Column("log_ratio", Float(53)),
    Column("standard_error", Float(53)),
    Column("df", Float(53)),
    Column("rounds", Integer),
    Column("far", Float(53)),
    Column("layout_id", Integer),
    Column("numbers", LargeBinary),
    Column("reading_set_id", Integer),
    sqlite_with_rowid=False,
)
ratios = Table(
    "ratios",
    METADATA,
    Column("series_id", Integer, primary_key=True),
    Column("run_id", Integer, primary_key=True),
    Column("base_id", Integer, primary_key=True),
    _number("log_ratio", Float(53)),
    Column("standard_error", Float(53)),
    _number("df", Float(53)),
    _number("rounds", Integer),
    Column("far", Float(53)),
    sqlite_with_rowid=False,
)
verdicts = Table(
    "verdicts",
    METADATA,
    _to("run_id", "runs", primary_key=True),
    Column("gate", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    *map(_text, ("outcome", "code", "message", "record")),
)
anchors = _shared(
    "anchors",
    *map(_text, ("suite", "workload", "question", "code", "commit_sha", "reason")),
    _number("since"),
    _to("previous_id", "anchors", nullable=True),
)
anchor_links = Table(
    "anchor_links",
    METADATA,
    _to("anchor_id", "anchors", primary_key=True),
    Column("machine_class", Text, primary_key=True),
    *(_number(name, Float(53)) for name in ("log_ratio", "standard_error", "df")),
    _number("rounds", Integer),
)
alerts = Table(
    "alerts",
    METADATA,
    _id(),
    Column("key", Text, nullable=False, unique=True),
    *map(_text, ("state", "owner", "reason", "until")),
    _number("opened_at"),
    Column("closed_at", Big),
)
alert_series = Table(
    "alert_series",
    METADATA,
    _to("alert_id", "alerts", primary_key=True),
    _to("series_id", "series", primary_key=True),
    _to("first_run_id", "runs"),
    _to("last_good_run_id", "runs", nullable=True),
    *(_number(name, Float(53)) for name in ("log_ratio", "standard_error")),
)
