"""What the dashboard reads of a history: verdicts, counts of runs, and ratios to anchors."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from history_factories import add, made_run, migrated_url_of, new_run
from sqlalchemy import Connection

from flashcore_ci.dashboard import overview
from flashcore_ci.history import address, database, queries, writing
from flashcore_ci.model.history import Anchor, AnchorLink
from flashcore_ci.run import dashboard, dashboard_source

NO_SUITE = Path("none.toml")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A history of eight made-up runs of three series, and one run of a kernel."""
    found = migrated_url_of(tmp_path)
    add(found, *(made_run(number, series=3, version=number // 4) for number in range(8)), new_run())
    return found


def test_newer_runs_of_other_suites_hide_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_source, "DETAILED", 1)
    url = migrated_url_of(tmp_path)
    run = made_run(8, series=1, version=2)
    red = {"gate": "memcheck", "target": run.points[0].series["workload"], "outcome": "FAIL", "code": "over-limit"}
    failed = replace(run, verdicts=({**red, "message": "1 finding", "record": '{"notes":[],"blocks":true}'},))
    newer = made_run(9, series=1, version=2)
    add(url, failed, replace(newer, points=tuple(replace(p, series={**p.series, "suite": "other"}) for p in newer.points)))
    named = {row.line.series.workload: row.change for row in overview.rows_of(dashboard.read(url, {}, NO_SUITE))}
    assert named[red["target"]].why == "memcheck: over-limit"


def test_the_order_in_which_runs_are_added_moves_nothing(tmp_path: Path) -> None:
    made = (made_run(number, series=1, version=number) for number in range(6))
    runs = [replace(run, commit={**run.commit, "position": 1}, run={**run.run, "collected_at": 10**9}) for run in made]
    shown = []
    for name, ordered in (("a", runs), ("b", runs[::-1])):
        (tmp_path / name).mkdir()
        url = migrated_url_of(tmp_path / name)
        add(url, *ordered)
        read = dashboard.read(url, {}, NO_SUITE)
        found = [read.runs[dot.run].digest for dot in read.lines[0].dots]
        with database.reading(address.parse(url, {})) as connection:
            points = queries.points(connection, read.lines[0].series.id)
        shown += [found, [read.runs[point.run].digest for point in points]]
        shown += [[read.runs[number].digest for number in reversed(read.detailed)]]
    assert shown == [sorted(shown[0], reverse=True)] * 6


def test_a_workload_that_not_every_run_has_is_counted_by_its_own_points(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_source, "NEWEST", 3)
    monkeypatch.setattr(dashboard_source, "SAMPLES", 2)
    add(url, *(made_run(number, series=4 if number % 2 else 3, version=9) for number in range(8, 20)))
    lines = [line for line in dashboard.read(url, {}, NO_SUITE).lines if line.series.suite == "made up"]
    assert [(line.total, line.sampled, len(line.dots)) for line in lines] == [(20, 2, 5)] * 3 + [(6, 2, 5)]


def test_ratios_count_only_to_an_anchor_and_old_points_are_samples(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_source, "NEWEST", 3)
    monkeypatch.setattr(dashboard_source, "SAMPLES", 2)
    before = dashboard.read(url, {}, NO_SUITE)
    line = next(line for line in before.lines if line.series.suite == "made up")
    assert (line.total, line.sampled, len(line.dots), line.is_anchored) == (8, 2, 5, False)
    assert [before.runs[dot.run].commit.position for dot in line.dots] == [1, 4, 6, 7, 8]
    assert [version.runs for version in line.versions] == [2, 3]
    with sqlite3.connect(tmp_path / "history.db") as plain:
        identity = plain.execute(
            "SELECT identity FROM codes JOIN points ON base_id = codes.id WHERE series_id = ?", (line.series.id,)
        ).fetchone()[0]
    key = {"suite": "made up", "workload": line.series.workload, "question": line.series.question}
    anchor = Anchor(id=0, code=identity, commit="c" * 40, since=1, reason="first", **key)
    database.write(address.parse(url, {}), lambda connection: writing.add_anchor(connection, anchor))
    after = next(each for each in dashboard.read(url, {}, NO_SUITE).lines if each.key == line.key)
    assert after.is_anchored
    with database.reading(address.parse(url, {})) as connection:
        points = {point.run: point for point in queries.points(connection, line.series.id)}
    for dot in after.dots:
        ratio = points[dot.run].anchored
        assert ratio is not None
        assert (dot.ratio, dot.value, dot.mhz) == (ratio.log_ratio, points[dot.run].megacycles, points[dot.run].mhz)
    linked = AnchorLink(machine_class=line.series.machine_class, log_ratio=0.5, standard_error=0.001, df=7.0, rounds=8)
    first = replace(anchor, code="0" * 64, since=0)

    def link(connection: Connection) -> int:
        return writing.add_anchor(connection, replace(anchor, since=2, previous=writing.add_anchor(connection, first)), [linked])

    database.write(address.parse(url, {}), link)
    moved = next(each for each in dashboard.read(url, {}, NO_SUITE).lines if each.key == line.key)
    assert [round(new.ratio - old.ratio, 9) for new, old in zip(moved.dots, after.dots, strict=True)] == [0.5] * 5
