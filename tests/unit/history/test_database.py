import sqlite3
from dataclasses import replace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from history_factories import add, made_run, new_run, url_of
from sqlalchemy.exc import OperationalError

from flashcore_ci.history import address, database, points, queries
from flashcore_ci.history.tables import METADATA
from flashcore_ci.model.errors import CannotCollectError, UsageError


@pytest.fixture
def url(tmp_path):
    return address.parse(url_of(tmp_path), {})


def test_migrations_go_up_and_down_and_keep_what_both_revisions_have(url, tmp_path):
    assert database.upgrade(url) == ("", database.HEAD)
    add(url_of(tmp_path), new_run())
    with database.reading(url) as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        before = queries.runs(connection), queries.points(connection, 1)
    assert database.upgrade(url, "0001") == (database.HEAD, "0001")
    with pytest.raises(UsageError, match="older version") as caught, database.reading(url):
        pass
    assert caught.value.fix == f"flashcore-ci history upgrade --db {url_of(tmp_path)}"
    assert database.upgrade(url) == ("0001", database.HEAD)
    with database.reading(url) as connection:
        assert (queries.runs(connection), queries.points(connection, 1)) == before
    assert database.upgrade(url, "base") == (database.HEAD, "")


def test_a_newer_database_is_left_alone(url, tmp_path):
    add(url_of(tmp_path), new_run())
    with sqlite3.connect(tmp_path / "history.db") as plain:
        plain.execute("UPDATE alembic_version SET version_num = '9999'")
    upgrades = (lambda: database.upgrade(url), lambda: database.upgrade(url, "base"))
    for use in (lambda: add(url_of(tmp_path), new_run()), lambda: database.reading(url).__enter__(), *upgrades):
        with pytest.raises(UsageError, match="newer version"):
            use()


def test_a_database_of_another_program_is_left_alone(url, tmp_path):
    with sqlite3.connect(tmp_path / "history.db") as plain:
        plain.execute("CREATE TABLE shop (id INTEGER)")
    with pytest.raises(UsageError, match="another program, as shop"):
        add(url_of(tmp_path), new_run())


def test_reading_makes_no_database(url, tmp_path):
    with pytest.raises(UsageError, match="there is no history"), database.reading(url):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_holds_no_history(tmp_path):
    url = address.parse(f"sqlite:///{tmp_path}/my runs.db", {})
    (tmp_path / "my runs.db").touch()
    with pytest.raises(UsageError, match="there is no history") as caught, database.reading(url):
        pass
    assert caught.value.fix == f"flashcore-ci history add RUN --db 'sqlite:///{tmp_path}/my runs.db'"


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + bytes(100)])
def test_a_damaged_file_is_one_line(tmp_path, content):
    (tmp_path / "history.db").write_bytes(content)
    with pytest.raises(CannotCollectError) as caught:
        add(url_of(tmp_path), new_run())
    assert "\n" not in str(caught.value)
    assert caught.value.fix
    assert (tmp_path / "history.db").read_bytes() == content


@pytest.mark.parametrize("change", ["points SET numbers = x'00'", "toolsets SET tools = '{'"])
def test_a_damaged_value_is_one_line(url, tmp_path, change):
    add(url_of(tmp_path), new_run())
    with sqlite3.connect(tmp_path / "history.db") as plain:
        plain.execute(f"UPDATE {change}")
    with pytest.raises(CannotCollectError, match="holds a damaged value") as caught, database.reading(url) as connection:
        points.tracks(connection)
    assert "\n" not in str(caught.value)


def test_names_are_in_one_order_whatever_the_locale(url, tmp_path):
    """A locale sorts without case, as this table does."""
    run = made_run(0, series=2, version=0)
    named = [replace(p, series={**p.series, "workload": name}) for p, name in zip(run.points, ("a", "B"), strict=True)]
    red = {"gate": "g", "outcome": "FAIL", "code": "over-limit", "message": "", "record": "{}"}
    add(url_of(tmp_path), replace(run, points=tuple(named), verdicts=tuple({**red, "target": name} for name in ("a", "B"))))
    with sqlite3.connect(tmp_path / "history.db") as plain:
        plain.execute("PRAGMA writable_schema = ON")
        for table, name in (("series", "workload"), ("verdicts", "target")):
            change = f"replace(sql, '{name} TEXT', '{name} TEXT COLLATE NOCASE')"
            assert plain.execute(f"UPDATE sqlite_schema SET sql = {change} WHERE name = '{table}'").rowcount == 1
    with database.reading(url) as connection:
        assert [series.workload for series in queries.series(connection)] == ["B", "a"]
        assert [verdict.target for verdict in queries.verdicts(connection, [1])] == ["B", "a"]


def test_work_that_another_writer_disturbs_is_done_again(url, monkeypatch):
    monkeypatch.setattr(database.time, "sleep", lambda _: None)
    database.upgrade(url)
    tries = []

    def work(connection):
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked"))
        return len(tries)

    assert database.write(url, work) == 3


def test_work_that_fails_leaves_nothing(url, tmp_path):
    add(url_of(tmp_path), new_run())

    def work(connection):
        connection.exec_driver_sql("DELETE FROM points")
        raise OperationalError("x", {}, sqlite3.OperationalError("disk I/O error"))

    with pytest.raises(CannotCollectError, match="disk I/O error"):
        database.write(url, work)
    with database.reading(url) as connection:
        assert queries.counts(connection)["points"] == 2
