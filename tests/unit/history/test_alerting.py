import random
from dataclasses import replace

import pytest

from flashcore_ci.history import alerting
from flashcore_ci.history.detection import Kind
from flashcore_ci.model.history import AlertSeries, Code, EntryFacts, Epoch, Machine, Series
from flashcore_ci.model.suite import Roof
from flashcore_ci.model.tracks import Track, TrackPoint
from flashcore_ci.model.verdict import Outcome

MACHINE = Machine(
    id=1, name="H200", uuid="GPU-0", machine_class="m", compute_capability="9.0", multiprocessors=132, memory=1, l2=1
)
EPOCH = Epoch(id=1, machine=MACHINE, driver="580", clock_policy="free", collector="c")
SERIES = Series(
    id=1, suite="s", workload="w", question="q", subject="x", roof=Roof.COMPUTE, scale="megacycles", machine_class="m"
)
ENTRY = EntryFacts(
    symbol="kernel", machine_code="1", registers=152, highest_register=151, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0,
    static_shared_bytes=0, dynamic_shared_bytes=1024, waits=3, opcodes=(("FFMA", 840), ("HGMMA", 256)),
)  # fmt: skip
CODE = Code(id=1, identity="i", machine_code="1", launcher="l", binding="b", subject="s", entries=(ENTRY,))


def point(number, level, *, code=None, rounds=5, seed=0):
    error = 0.0005 / rounds**0.5
    drawn = random.Random(f"{number} {rounds} {seed}").gauss(0.0, error)
    return TrackPoint(
        run=number, commit=f"{number:040}", position=number, collected_at=number, log_ratio=level + drawn, standard_error=error,
        df=rounds - 1.0, rounds=rounds, code=code or f"code {number}", code_id=1, verdict=Outcome.PASS, bundle="",
    )  # fmt: skip


def track(levels, *, name="w", number=1, anchored=True, **options):
    """A track that measured each level once, and twice where it rises."""
    points = []
    for place, level in enumerate(levels):
        points.append(point(place, level, seed=number, **options))
        if place and level != levels[place - 1]:
            points.append(point(place, level, rounds=3, seed=number))
    series = replace(SERIES, id=number, workload=name)
    return Track(series=series, epoch=EPOCH, anchored=anchored, points=tuple(points))


def grouped(*tracks, codes=None):
    found = alerting.detect(tracks, codes or {1: CODE})
    return [
        sorted(each.track.series.workload for each in group)
        for group in alerting.groups(d for d in found if d.finding.kind is Kind.SLOWER)
    ]


QUIET, SLOW = [0.0] * 20, [0.01] * 5


def test_series_of_one_entry_function_and_place_are_one_alert():
    assert grouped(track(QUIET + SLOW), track(QUIET + SLOW, name="v", number=2)) == [["v", "w"]]


def test_another_place_or_another_entry_function_is_another_alert():
    later = track(QUIET + [0.0] * 3 + SLOW, name="v", number=2)
    assert grouped(track(QUIET + SLOW), later) == [["w"], ["v"]]
    no_entries = {1: replace(CODE, entries=())}
    assert grouped(track(QUIET + SLOW), track(QUIET + SLOW, name="v", number=2), codes=no_entries) == [["v"], ["w"]]


def test_a_slowdown_is_gone_when_the_newest_code_is_fast_again():
    (slow,) = alerting.detect([track(QUIET + SLOW)], {1: CODE})
    fast = [each for each in alerting.detect([track(QUIET + SLOW + [0.0] * 3)], {1: CODE}) if each.finding.kind is Kind.SLOWER]
    assert (slow.gone, [each.gone for each in fast]) == (False, [True])


def gone(*levels, **changes):
    """Whether a slowdown is gone after these levels, which another epoch may have measured."""
    before = replace(track(QUIET + SLOW), chain=1)
    later = tuple(point(100 + place, level) for place, level in enumerate(levels))
    other = replace(before, points=later, epoch=replace(EPOCH, id=2), **changes)
    same = replace(before, points=(*before.points, *later))
    return [
        [each.gone for each in alerting.detect(found, {1: CODE}) if each.finding.kind is Kind.SLOWER]
        for found in ([same], [before, other])
    ]


@pytest.mark.parametrize(("level", "answer"), [(0.0, True), (0.005, None), (0.0099, False)])
def test_a_level_in_the_middle_says_nothing(level, answer):
    assert gone(level) == [[answer], [answer]]


def test_another_epoch_without_the_anchor_says_only_what_its_code_says():
    assert [gone(level, chain=2)[1] for level in (0.0, 0.0099)] == [[None], [None]]
    before = track(QUIET + SLOW)
    for place, answer in ((3, True), (21, False)):
        other = replace(before, points=(replace(before.points[place], position=99, run=99),), chain=2)
        assert [each.gone for each in alerting.detect([before, other], {1: CODE})] == [answer]


def test_without_an_anchor_one_run_of_a_slowdown_that_scatters_does_not_end_it():
    source = random.Random(1)
    levels = [level + source.gauss(0.0, 0.005) for level in [0.0] * 20 + [0.025] * 20]
    for newest, answer in ((0.008, None), (-0.005, True), (0.03, False)):
        points = tuple(point(place, level, rounds=400) for place, level in enumerate([*levels, newest]))
        (found,) = alerting.detect([Track(series=SERIES, epoch=EPOCH, anchored=False, points=points)], {1: CODE})
        assert found.gone is answer


def test_a_part_of_an_alert_is_judged_without_a_finding():
    part = AlertSeries(series=1, first=20, last_good=19, log_ratio=0.01, standard_error=0.0003)
    for later, answer in (([], False), ([0.0], True), ([0.005], None)):
        made = track([*QUIET, 0.01, *later])
        found, *_ = alerting.remembered([part], [made, track(QUIET, number=2)], {1: CODE})
        assert (found.gone, found.first.run, found.last_good.run) == (answer, 20, 19)
    assert list(alerting.remembered([replace(part, first=99)], [made], {1: CODE})) == []


@pytest.mark.parametrize(("code", "kinds"), [(None, [Kind.SLOWER]), ("same", [])])
def test_without_an_anchor_equal_code_is_no_slowdown(code, kinds):
    levels = [0.0] * 20 + [0.05] * 20
    points = tuple(point(place, level, code=code) for place, level in enumerate(levels))
    found = alerting.findings(Track(series=SERIES, epoch=EPOCH, anchored=False, points=points), 1e-6)
    assert [each.kind for each in found] == kinds


def test_without_an_anchor_one_step_is_one_slowdown():
    source = random.Random(29)
    points = [replace(point(place, 0.0), log_ratio=source.gauss(0.0, 0.002) + 0.008 * (place >= 40)) for place in range(90)]
    tracks = [Track(series=SERIES, epoch=EPOCH, anchored=False, points=tuple(points[:count])) for count in range(41, 91)]
    assert {each.first for found in tracks for each in alerting.findings(found, 1e-6)} == {38}


def test_an_alert_names_what_the_compiler_and_the_tools_changed():
    entry = replace(ENTRY, machine_code="2", registers=168, spill_store_bytes=8, opcodes=(("FFMA", 844), ("HGMMA", 250)))
    lines = list(alerting.code_changes(CODE, replace(CODE, entries=(entry,), binding="c")))
    assert lines == [
        "kernel: 152 to 168 registers, 0 to 8 bytes of spill stores, opcodes HGMMA -6 FFMA +4",
        "the binding changed",
    ]
    assert list(alerting.code_changes(None, CODE)) == []
    bumped = replace(point(1, 0.0), bumps=(("torch", "2.11", "2.12"), ("nvcc", "", "13.5")))
    assert list(alerting.tool_changes([bumped])) == ["nvcc absent to 13.5", "torch 2.11 to 2.12"]
