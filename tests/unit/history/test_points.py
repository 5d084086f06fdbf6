import json
import math
import sqlite3
import struct
from dataclasses import replace

import pytest
from evidence_factories import make_device
from history_factories import add, compared, evidence_of, migrated_url_of, new_run

from flashcore_ci.history import address, database, queries, selection, writing
from flashcore_ci.history.points import bumped, tracks
from flashcore_ci.model.history import Anchor, AnchorLink, Commit, Standing
from flashcore_ci.model.reading import Samples

HEAD = compared().identity
PLAIN = replace(compared().base, machine_code="an anchor")


def slowed(run, factor):
    """The run with its own samples times ``factor``."""
    observations = tuple(
        replace(o, samples=tuple((n, Samples(values=tuple(factor * v for v in x.values), unit=x.unit)) for n, x in o.samples))
        for o in run.evidence.observations
    )
    return replace(run, evidence=replace(run.evidence, observations=observations), digest="d" * 64)


def run_of(number, *observations, driver="580.1", tools=(("torch", "8"),), **changes):
    where = {"device": make_device(driver=driver), "tools": tools, "collected_at": f"2026-11-{number:02}T08:00:00Z"}
    evidence = evidence_of(*observations, **where)
    commit = Commit(sha=f"{number:040}", parent=f"{number - 1:040}", position=number)
    return new_run(evidence, commit=commit, **changes)


@pytest.fixture
def url(tmp_path):
    return migrated_url_of(tmp_path)


def read(url, query):
    with database.reading(address.parse(url, {})) as connection:
        return query(connection)


def big(url, **options):
    return [track for track in read(url, lambda c: tracks(c, **options)) if track.series.workload == "big"]


def pin(url, code, *, since=1, previous=None, links=()):
    series = next(s for s in read(url, queries.series) if s.workload == "big")
    anchor = Anchor(
        id=0,
        suite=series.suite,
        workload="big",
        question=series.question,
        code=code,
        commit="a" * 40,
        since=since,
        reason="pinned",
        previous=previous,
    )
    named = [replace(link, machine_class=series.machine_class) for link in links]
    return database.write(address.parse(url, {}), lambda c: writing.add_anchor(c, anchor, named))


def base_of(url):
    """The code that the first comparison was with."""
    ids = [series.id for series in read(url, queries.series)]
    points = [point for number in ids for point in read(url, lambda c, number=number: queries.points(c, number))]
    return next(ratio.base for point in points for ratio in point.ratios)


def test_a_track_has_the_ratio_to_the_anchor_in_the_order_of_commits(url):
    add(url, run_of(3, compared(), bundle="b" * 64), run_of(2, compared(base=(1.0, 1.02, 1.01))))
    number = pin(url, base_of(url))
    (track,) = big(url)
    assert track.anchored
    assert [(point.position, point.anchor) for point in track.points] == [(2, number), (3, number)]
    assert all(point.standard_error > 0 and point.rounds == 3 for point in track.points)
    assert track.points[1].bundle == "b" * 64


def test_a_point_has_the_step_from_a_parent_that_was_timed_in_the_same_rounds(url):
    parent = compared(base=(1.01, 1.01, 1.03))
    add(url, run_of(2, replace(compared(), base=PLAIN), parent))
    codes = {
        ratio.base: ratio
        for s in read(url, queries.series)
        for p in read(url, lambda c, s=s: queries.points(c, s.id))
        for ratio in p.ratios
    }
    assert len(codes) == 2
    (parents,) = {base for base, ratio in codes.items() if ratio.log_ratio == pytest.approx(0.0162, abs=2e-4)}
    pin(url, next(base for base in codes if base != parents))
    ((point,),) = (track.points for track in big(url))
    assert (point.parent, point.step, point.step_error) == (parents, codes[parents].log_ratio, codes[parents].standard_error)
    assert point.log_ratio != point.step


def test_only_runs_that_feed_detection_count_unless_asked(url):
    add(url, run_of(2, compared(), standing=Standing.OTHER))
    assert big(url) == []
    assert len(big(url, standings=queries.ALL)) == 1


def test_another_driver_is_another_track(url):
    add(url, run_of(2, compared()), run_of(3, compared(), driver="590.2"))
    pin(url, base_of(url))
    first, second = big(url)
    assert [track.epoch.driver for track in (first, second)] == ["580.1", "590.2"]
    assert [len(track.points) for track in (first, second)] == [1, 1]


def test_a_replaced_anchor_moves_later_points_by_what_both_measured(url):
    add(url, run_of(2, compared()), run_of(3, replace(compared(), base=PLAIN)))
    codes = read(url, lambda c: [p.ratios[0].base for s in queries.series(c) for p in queries.points(c, s.id) if p.ratios])
    first = pin(url, codes[0])
    link = AnchorLink(machine_class="", log_ratio=0.1, standard_error=0.01, df=3, rounds=4)
    pin(url, codes[1], since=2, previous=first, links=[link])
    (track,) = big(url)
    before, after = track.points
    assert after.log_ratio == pytest.approx(before.log_ratio + 0.1)
    assert (before.link_error, after.link_error) == (0.0, pytest.approx(0.01))


def test_equal_code_keeps_the_value_and_was_not_timed(url):
    same = replace(compared(), samples=(), base=HEAD)
    add(url, run_of(2, compared()), run_of(3, same))
    pin(url, base_of(url))
    (track,) = big(url)
    before, after = track.points
    assert after.log_ratio == before.log_ratio
    assert (before.standard_error is None, after.standard_error) == (False, None)
    first, newest = read(url, lambda c: selection.dots(c, track.series, [1, 2]))
    assert (newest.ratio, newest.error) == (first.ratio, first.error)


def test_without_an_anchor_the_run_itself_is_the_datum(url):
    add(url, run_of(2), slowed(run_of(3), 2.0))
    (track,) = big(url)
    assert not track.anchored
    assert track.points[0].log_ratio == 0.0
    assert track.points[1].log_ratio == pytest.approx(math.log(2.0))
    assert all(point.standard_error > 0 for point in track.points)


def test_values_that_are_not_finite_are_absent(url, tmp_path):
    add(url, run_of(2, compared()), run_of(3))
    pin(url, base_of(url))
    with sqlite3.connect(tmp_path / "history.db") as plain:
        plain.execute("UPDATE points SET log_ratio = 9e999 WHERE run_id = 1")
        for number, text in plain.execute("SELECT id, names FROM layouts").fetchall():
            broken = struct.pack("<f", math.inf) * len(json.loads(text))
            plain.execute("UPDATE points SET numbers = ? WHERE run_id = 2 AND layout_id = ?", (broken, number))
    series = next(s for s in read(url, queries.series) if s.workload == "big")
    first, second = read(url, lambda c: queries.points(c, series.id))
    assert (first.ratios, second.megacycles, "sol/sm" in second.readings) == ((), None, False)
    dots = read(url, lambda c: selection.dots(c, series, [1, 2]))
    assert [(dot.ratio, dot.value is None) for dot in dots] == [(None, False), (None, True)]


def test_a_point_names_the_tools_that_changed(url):
    add(url, run_of(2), run_of(3, tools=(("torch", "9"),)))
    points = [point for track in big(url) for point in track.points]
    assert points[0].bumps == ()
    assert points[1].bumps == (("torch", "8", "9"),)


def test_a_bump_is_a_tool_that_came_went_or_changed():
    assert list(bumped((("a", "1"), ("b", "1")), (("a", "2"), ("c", "1")))) == [("a", "1", "2"), ("b", "1", ""), ("c", "", "1")]
