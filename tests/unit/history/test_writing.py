from dataclasses import replace

import pytest
from evidence_factories import make_device
from factories import make_build, make_entry_build
from history_factories import BUILD, add, compared, evidence_of, made_run, migrated_url_of, new_run
from sqlalchemy import event

from flashcore_ci.history import address, database, queries, writing
from flashcore_ci.history.rows import content_digest, rows_of
from flashcore_ci.history.writing import Added
from flashcore_ci.model.history import Alert, AlertSeries, Anchor, AnchorLink, Standing


@pytest.fixture
def url(tmp_path):
    return migrated_url_of(tmp_path)


def read(url, query):
    with database.reading(address.parse(url, {})) as connection:
        return query(connection)


def points(connection):
    return [
        point for series in queries.series(connection) for point in queries.points(connection, series.id, standings=queries.ALL)
    ]


def test_a_run_is_stored_once(url):
    assert add(url, new_run(), new_run()) == [Added.NEW, Added.KNOWN]
    counts = read(url, queries.counts)
    assert (counts["runs"], counts["points"], counts["verdicts"]) == (1, 2, 1)


def statements_of(url, rows):
    """Count what the database executes for one run."""
    engine, seen = database.engine_of(address.parse(url, {})), []
    event.listen(engine, "before_cursor_execute", note := lambda *given: seen.append(given[2]))
    add(url, rows)
    event.remove(engine, "before_cursor_execute", note)
    return len(seen)


def test_a_run_takes_the_same_statements_however_many_workloads_it_has(url, monkeypatch):
    monkeypatch.setattr(database, "_migrate", lambda *_: pytest.fail("it has its tables"))
    few, many = (statements_of(url, made_run(number, series=series, version=number)) for number, series in enumerate((2, 90)))
    assert many <= few <= 40  # the second shares rows with the first


def test_facts_are_stored_once_per_digest(url):
    add(url, *(new_run(evidence_of(compared(), collected_at=f"2026-11-2{day}T08:00:00Z")) for day in range(1, 6)))
    counts = read(url, queries.counts)
    assert counts["runs"] == 5
    assert (counts["entries"], counts["machines"], counts["toolsets"], counts["check_sets"], counts["series"]) == (1, 1, 1, 1, 2)
    assert counts["codes"] == 2  # this code and the base's


def test_a_run_that_lies_about_code_changes_nothing_of_other_runs(url):
    lie = replace(evidence_of(), builds=(make_build(entries=(make_entry_build(registers=1),)),))
    add(url, new_run(lie, standing=Standing.OTHER), new_run())
    found = read(
        url,
        lambda c: [(p.standing, queries.codes(c, [p.code_id])[p.code_id].entries[0].registers) for p in points(c) if p.code_id],
    )
    assert set(found) == {(Standing.OTHER, 1), (Standing.PROTECTED, BUILD.entries[0].registers)}


@pytest.mark.parametrize("first", [Standing.OTHER, Standing.REVIEWED])
def test_a_run_rises_and_never_falls(url, first):
    lie = replace(new_run(), standing=first, verdicts=(), headline="PASS: a lie")
    assert add(url, lie, new_run(), lie) == [Added.NEW, Added.RAISED, Added.KNOWN]
    (run,) = read(url, queries.runs)
    assert (run.standing, run.headline) == (Standing.PROTECTED, "FAIL: one check")
    assert read(url, queries.counts)["points"] == 2
    assert len(read(url, lambda c: queries.verdicts(c, [run.id]))) == 1


def test_a_bundle_that_is_found_later_is_named(url):
    add(url, new_run(), new_run(bundle="b" * 64), new_run(bundle="c" * 64))
    assert read(url, queries.runs)[0].bundle == "b" * 64
    add(url, lower := replace(new_run(), digest="d" * 64, standing=Standing.OTHER, bundle="b" * 64), replace(lower, bundle=""))
    add(url, replace(lower, bundle="", standing=Standing.PROTECTED))
    assert {run.bundle for run in read(url, queries.runs)} == {"b" * 64}


def test_only_protected_runs_feed_detection_unless_asked(url):
    for number, standing in enumerate(Standing):
        add(url, new_run(evidence_of(device=make_device(memory=number)), standing=standing))
    assert [point.standing for point in read(url, lambda c: queries.points(c, 1))] == [Standing.PROTECTED]
    assert len(read(url, lambda c: queries.points(c, 1, standings=queries.ALL))) == 3


def anchor_of(url, **changes):
    (ratio,) = next(point.ratios for point in read(url, points) if point.ratios)
    series = next(s for s in read(url, queries.series) if s.workload == "big")
    values = {"suite": series.suite, "workload": "big", "question": series.question, "code": ratio.base, "commit": "a" * 40}
    return Anchor(**{"id": 0, **values, "since": 1, "reason": "the first", **changes})


def test_a_ratio_is_anchored_when_its_base_is_an_anchor_whatever_came_first(url):
    add(url, new_run(evidence_of(compared())))
    assert all(point.anchored is None for point in read(url, points))
    link = AnchorLink(machine_class="H", log_ratio=0.1, standard_error=0.01, df=3, rounds=4)
    anchor = anchor_of(url)
    number = database.write(address.parse(url, {}), lambda c: writing.add_anchor(c, anchor, [link]))
    assert database.write(address.parse(url, {}), lambda c: writing.add_anchor(c, anchor, [link])) == number
    assert [point.anchored.anchor for point in read(url, points) if point.anchored] == [number]
    (stored,) = read(url, queries.anchors)
    assert (stored.links, stored.code) == ((link,), anchor.code)
    add(url, new_run(evidence_of(compared(), collected_at="2026-11-22T08:00:00Z")))
    assert len([point for point in read(url, points) if point.anchored]) == 2


def test_an_alert_is_replaced_by_its_key(url):
    add(url, new_run())
    part = AlertSeries(series=1, first=1, last_good=None, log_ratio=0.02, standard_error=0.001)
    alert = Alert(key="A1", state="new", opened_at=5, closed_at=None, owner="", reason="", until="", series=(part,))
    for state in ("new", "closed"):
        database.write(address.parse(url, {}), lambda c, state=state: writing.put_alert(c, replace(alert, state=state)))
    assert read(url, queries.alerts) == (replace(alert, state="closed"),)


def retained(url, **changes):
    values = {"before": 1_800_000_000, "standings": (Standing.OTHER,), **changes}
    return database.write(address.parse(url, {}), lambda c: writing.retain(c, **values), alone=True)


def test_old_runs_go_with_all_that_only_they_used(url):
    keep, other = new_run(), new_run(evidence_of(compared(), device=make_device(uuid="GPU-2")), standing=Standing.OTHER)
    add(url, keep)
    before = read(url, queries.counts)
    add(url, other)
    assert retained(url, dry_run=True) == 1
    assert read(url, queries.counts)["runs"] == 2
    assert retained(url, before=0) == 0
    assert retained(url) == 1
    assert read(url, queries.counts) == before
    assert retained(url, standings=tuple(Standing)) == 1
    assert set(read(url, queries.counts).values()) == {0}


def test_runs_that_an_alert_names_stay(url):
    add(url, new_run(standing=Standing.OTHER))
    part = AlertSeries(series=1, first=1, last_good=1, log_ratio=0.02, standard_error=0.001)
    alert = Alert(key="A1", state="new", opened_at=5, closed_at=None, owner="", reason="", until="", series=(part,))
    database.write(address.parse(url, {}), lambda c: writing.put_alert(c, alert))
    assert retained(url) == 0


def test_shared_rows_are_found_by_content(url):
    rows = rows_of(new_run())
    database.upgrade(address.parse(url, {}))
    twice = database.write(address.parse(url, {}), lambda c: writing.share(c, database_table(), [rows.toolset, rows.toolset]))
    assert twice[0] == twice[1]
    assert content_digest(rows.toolset)


def database_table():
    from flashcore_ci.history.tables import toolsets

    return toolsets
