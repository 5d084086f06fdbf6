"""Connections, transactions and migrations, on SQLite and PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import random
import shlex
import struct
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from flashcore_ci.history.address import SQLITE, shown
from flashcore_ci.model.errors import CannotCollectError, UsageError
from flashcore_ci.model.text import visible

T = TypeVar("T")
HEAD = "0004"
"""The newest migration in ``migrations/versions``."""
TABLE = "alembic_version"
MIGRATIONS = Path(__file__).parent / "migrations"
WAIT_SECONDS = 15
"""How long a writer waits for others."""
ATTEMPTS = 8
RETRIED = frozenset({"40001", "40P01", "23505", "55P03"})
"""PostgreSQL's codes of two transactions in each other's way: serialization, deadlock, a row made twice, a lock."""
WRITERS = 7_305_114_052_026
"""PostgreSQL's advisory lock. Writers share it."""
MAX_MESSAGE = 300


@cache
def engine_of(url: URL) -> Engine:
    """Make an engine once, because it keeps compiled statements. Transactions of SQLite begin as writers, because a reader that becomes a writer can fail."""
    if url.drivername != SQLITE:
        options = f"-c statement_timeout={2 * WAIT_SECONDS}s -c lock_timeout={WAIT_SECONDS}s"
        return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 10, "options": options})
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": WAIT_SECONDS})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(_begin(connection)))
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # this module begins transactions, not the driver
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}").close()


def _begin(connection: Connection) -> str:
    return "BEGIN" if connection.get_execution_options().get("reads") else "BEGIN IMMEDIATE"


@contextlib.contextmanager
def reading(url: URL) -> Iterator[Connection]:
    """Connect to read. UsageError if there is no database, or if it needs a migration."""
    if url.drivername == SQLITE and not Path(url.database or "").is_file():
        _require(None, url)
    with _errors(url), engine_of(url).connect() as plain, plain.execution_options(reads=True) as connection, connection.begin():
        _require(revision(connection), url)
        yield connection


def write(url: URL, work: Callable[[Connection], T], *, alone: bool = False) -> T:
    """Run ``work`` in one transaction, again if another writer was in its way. A new database gets its tables first.

    ``alone``: no other writer works meanwhile.
    """
    with _errors(url):
        _make_folder(url)
        engine = engine_of(url)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with engine.begin() as connection:
                    if revision(connection) is None:
                        _migrate(connection, HEAD)
                    else:
                        _lock(connection, alone=alone)
                    _require(revision(connection), url)
                    return work(connection)
            except DBAPIError as error:
                if attempt == ATTEMPTS or not _in_the_way(error):
                    raise
                time.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311 - spreads writers, keeps no secret
        raise AssertionError


def upgrade(url: URL, to: str = HEAD) -> tuple[str, str]:
    """Migrate to a revision, also to an older one, but not from a newer tool's. Return those before and after ("" for none)."""
    with _errors(url):
        _make_folder(url)
        with engine_of(url).begin() as connection:
            before = revision(connection) or ""
            if before > HEAD:
                _require(before, url)
            _migrate(connection, to)
            return before, revision(connection) or ""


def revision(connection: Connection) -> str | None:
    """Return the database's revision, or None for an empty one. UsageError if its tables are of another program."""
    names = set(inspect(connection).get_table_names())
    if TABLE not in names:
        if names:
            message = f"{shown(connection.engine.url)} holds tables of another program, as {visible(min(names))}"
            raise UsageError(message, fix="give --db a database of its own")
        return None
    found = connection.scalar(text(f"SELECT version_num FROM {TABLE}"))  # noqa: S608 - a constant
    return None if found is None else str(found)


def _migrate(connection: Connection, to: str) -> None:
    from alembic import command  # noqa: PLC0415 - slow, and rarely needed
    from alembic.config import Config  # noqa: PLC0415

    _lock(connection, alone=True)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    present = revision(connection) or ""
    (command.downgrade if to == "base" or present > to else command.upgrade)(config, to)


def _lock(connection: Connection, *, alone: bool) -> None:
    """Lock out migrations and clean-ups, or all writers. SQLite has one writer at a time."""
    if connection.dialect.name != SQLITE:
        connection.execute(select(func.pg_advisory_xact_lock(WRITERS) if alone else func.pg_advisory_xact_lock_shared(WRITERS)))


def _require(found: str | None, url: URL) -> None:
    option = f"--db {shlex.quote(f'sqlite:///{shown(url)}')}" if url.drivername == SQLITE else "--db URL"
    if found is None:
        raise UsageError(f"there is no history in {shown(url)}", fix=f"flashcore-ci history add RUN {option}")
    if found < HEAD:
        raise UsageError(f"{shown(url)} has the tables of an older version", fix=f"flashcore-ci history upgrade {option}")
    if found > HEAD:
        raise UsageError(f"{shown(url)} has the tables of a newer version", fix="install the newer flashcore-ci")


def _make_folder(url: URL) -> None:
    if url.drivername == SQLITE:
        file = Path(url.database or "")
        if file.exists() and not file.is_file():
            raise UsageError(f"{shown(url)} is not a plain file", fix="give --db another file")
        file.parent.mkdir(parents=True, exist_ok=True)


def _in_the_way(error: DBAPIError) -> bool:
    if getattr(error.orig, "sqlstate", None) in RETRIED:
        return True
    return isinstance(error, OperationalError) and "locked" in str(error.orig)


@contextlib.contextmanager
def _errors(url: URL) -> Iterator[None]:
    """Turn the database's error into one line. The address in it has no password."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"this database needs {error.name}", fix="pip install 'flashcore-ci[history]'") from None
    except (struct.error, json.JSONDecodeError) as error:
        raise CannotCollectError(
            f"the database {shown(url)} holds a damaged value: {error}", fix="restore a copy of it"
        ) from None
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        line = visible(" ".join(str(cause).split()))[:MAX_MESSAGE]
        raise CannotCollectError(
            f"the database {shown(url)}: {line}", fix="check that it runs, and that you may write to it"
        ) from None
