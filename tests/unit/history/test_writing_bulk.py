from history_factories import made_run, url_of
from history_size import fill, made_runs
from sqlalchemy import select

from flashcore_ci.history import address, database, tables, writing


def content(url):
    with database.reading(address.parse(url, {})) as connection:
        return {name: sorted(map(repr, connection.execute(select(table)))) for name, table in tables.METADATA.tables.items()}


def test_runs_written_many_at_once_are_those_that_add_run_writes(tmp_path):
    for folder in ("one", "many"):
        (tmp_path / folder).mkdir()
    one, many = (url_of(tmp_path / folder) for folder in ("one", "many"))
    for rows in made_runs(9, series=2, changes=30):
        database.write(address.parse(one, {}), lambda connection, rows=rows: writing.add_run(connection, rows))
    fill(many, made_runs(9, series=2, changes=30), batch=4)
    assert content(many) == content(one)
    assert len(content(many)["runs"]) == 9
    assert made_run(1, series=2, version=0) == made_run(1, series=2, version=0)
