from dataclasses import replace

from evidence_factories import make_device
from history_factories import PLAN, add, compared, evidence_of, migrated_url_of, new_run

from flashcore_ci.history import address, database, queries, selection
from flashcore_ci.history.anchors import chains_of
from flashcore_ci.history.points import tracks
from flashcore_ci.model.anchor import Pin, PinLink, PinnedCode
from flashcore_ci.model.history import Commit
from flashcore_ci.model.identity import ANCHORED
from flashcore_ci.model.reading import measured

BASE = replace(compared().identity, machine_code="anchor 1")


def pinned(identity):
    parts = {name: getattr(identity, name) for name in ("machine_code", "launcher", "binding")}
    return PinnedCode(subject="scale", source=identity.subject, **parts)


def pin(identity, *, since="2026-01-01", links=(), suite=PLAN.suite):
    return Pin(
        suite=suite,
        commit="a" * 40,
        since=since,
        reason="why",
        owner="o",
        compiler="nvcc",
        codes={"big": pinned(identity)},
        links=links,
    )


def sitting(identity, **changes):
    """A comparison with the anchor as the collector writes it."""
    plain = compared(base=(1.0, 1.01, 1.02), head=(1.1, 1.12, 1.13))
    samples = tuple((name.replace("base/", "anchor/"), values) for name, values in plain.samples)
    return replace(plain, base=identity, samples=samples, readings=((ANCHORED, measured(1.0, "count")),), **changes)


def run_of(number, identity, pins):
    evidence = evidence_of(compared(), sitting(identity), device=make_device(), collected_at=f"2026-11-{number:02}T08:00:00Z")
    return new_run(evidence, commit=Commit(sha=f"{number:040}", position=number), pins=pins)


def read(url, query):
    with database.reading(address.parse(url, {})) as connection:
        return query(connection)


def test_a_run_brings_the_anchor_that_it_was_timed_with(tmp_path):
    url = migrated_url_of(tmp_path)
    add(url, run_of(2, BASE, (pin(BASE),)), run_of(3, BASE, (pin(BASE),)))
    (anchor,) = read(url, queries.anchors)
    assert (anchor.code, anchor.reason) == (pinned(BASE).code, "why")
    (track,) = [t for t in read(url, tracks) if t.series.workload == "big"]
    assert track.anchored
    assert [round(point.log_ratio, 2) for point in track.points] == [0.10, 0.10]


def test_a_replaced_anchor_keeps_the_scale_whatever_was_added_first(tmp_path):
    other = replace(BASE, machine_code="anchor 2")
    evidence = evidence_of(device=make_device())
    name = evidence.provenance.machine_class or "NVIDIA H200, sm_90, 132 multiprocessors"
    link = PinLink(workload="big", machine_class=name, log_ratio=0.5, standard_error=0.01, df=4.0, rounds=5)
    pins = (pin(BASE), pin(other, since="2026-02-01", links=(link,)))
    for folder, order in (("a", (2, 3)), ("b", (3, 2))):
        (tmp_path / folder).mkdir()
        url = migrated_url_of(tmp_path / folder)
        runs = {2: run_of(2, BASE, pins), 3: run_of(3, other, pins)}
        add(url, *(runs[number] for number in order))
        (track,) = [t for t in read(url, tracks) if t.series.workload == "big"]
        assert track.series.machine_class == name
        assert [round(point.log_ratio, 2) for point in track.points] == [0.10, 0.60]
        assert len(read(url, queries.anchors)) == 2


def test_anchors_that_were_never_measured_together_are_two_tracks(tmp_path):
    url = migrated_url_of(tmp_path)
    other = replace(BASE, machine_code="anchor 2")
    pins = (pin(BASE), pin(other, since="2026-02-01"))
    add(url, run_of(2, BASE, pins), run_of(3, other, pins))
    assert len([t for t in read(url, tracks) if t.series.workload == "big"]) == 2
    (series,) = [s for s in read(url, queries.series) if s.workload == "big"]
    assert [dot.ratio is None for dot in read(url, lambda c: selection.dots(c, series, [1, 2]))] == [True, False]


def test_another_subject_file_is_the_same_anchor(tmp_path):
    url = migrated_url_of(tmp_path)
    old = replace(pin(BASE), codes={"big": replace(pinned(BASE), source="of an older commit")})
    add(url, run_of(2, BASE, (old,)))
    (track,) = [t for t in read(url, tracks) if t.series.workload == "big"]
    assert track.anchored
    assert [anchor.previous is None for anchor in read(url, queries.anchors)] == [True, False]


def test_a_pin_of_another_suite_or_build_pins_nothing_here():
    seen = (sitting(BASE),)
    assert chains_of((pin(BASE, suite="other"),), PLAN, seen, "H") == ()
    (chain,) = chains_of((pin(replace(BASE, machine_code="x")),), PLAN, seen, "H")
    assert [row.is_copy for row in chain] == [False]
