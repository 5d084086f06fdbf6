"""Cycles at a common clock."""

import json
import lzma
import math
import random
import statistics
from pathlib import Path

import pytest

from flashcore_ci.judge.stats.common_clock import at_common_clock

RECORDED = json.loads(lzma.decompress((Path(__file__).parent / "clocks.json.xz").read_bytes()))
"""Cycles and times of compute-bound rows in nine recordings, of which ``held out`` chose nothing."""


def scatter(cycles):
    return 100.0 * statistics.stdev(map(math.log, cycles))


def processes(slope, *, count=5, noise=1e-3, seed=1, clock=0.02, shift=0.0):
    """Processes of a kernel whose cycles rise by ``slope``. ``shift``: how much higher the clock of all is."""
    source = random.Random(seed)
    clocks = [shift + source.gauss(0.0, clock) for _ in range(count)]
    logs = [slope * x + source.gauss(0.0, noise) for x in clocks]
    return [math.exp(y) for y in logs], [math.exp(y - x) for y, x in zip(logs, clocks, strict=True)]


@pytest.mark.parametrize("slope", [0.0, 0.1, 0.57, 1.0])
def test_the_slope_and_the_scatter_are_those_that_were_made(slope):
    variances, slopes = [], []
    for seed in range(300):
        found = at_common_clock(processes(slope, seed=seed))
        variances.append(scatter(found.cycles[0]) ** 2)
        slopes.append(found.slope)
    assert statistics.fmean(slopes) == pytest.approx(slope, abs=0.02)
    assert math.sqrt(statistics.fmean(variances)) == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("slope", [-0.6, -0.2])
def test_a_process_that_takes_longer_at_a_lower_clock_is_not_excused(slope):
    cycles, ms = processes(slope)
    assert at_common_clock((cycles, ms)).cycles == (tuple(cycles),)


def test_more_cycles_than_the_clock_explains_stay():
    """With a slope above 1 the time rises with the clock. Only the part up to 1 is explained."""
    cycles, ms = processes(1.5, clock=0.05)
    assert scatter(at_common_clock((cycles, ms)).cycles[0]) > 0.9 * scatter(ms) > 1.0


def test_without_a_clear_slope_nothing_changes():
    cycles, ms = processes(0.0, clock=1e-5)
    assert at_common_clock((cycles, ms)).slope == 0.0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 5e-324])
def test_impossible_values_stay_for_others_to_refuse(bad):
    cycles, ms = processes(0.5)
    for group in (([bad, *cycles[1:]], ms), (cycles, [bad, *ms[1:]]), (cycles, ms[1:]), (cycles[:3], ms[:3])):
        assert at_common_clock(group).cycles[0][1:] == tuple(group[0][1:])


def test_two_groups_are_compared_at_one_clock():
    found = at_common_clock(processes(0.57, seed=1), processes(0.57, seed=2, shift=0.03))
    first, second = (statistics.fmean(map(math.log, each)) for each in found.cycles)
    assert second - first == pytest.approx(0.0, abs=2e-3)
    assert 0.0 < found.leverage < 1.0


def test_groups_at_clocks_too_far_from_each_other_stay_as_they_are():
    near, far = processes(0.57, seed=1, clock=0.002), processes(0.57, seed=2, clock=0.002, shift=0.05)
    assert at_common_clock(near, far).cycles == (tuple(near[0]), tuple(far[0]))


@pytest.mark.parametrize(("recording", "most"), [("long", 0.13), ("short", 0.18), ("held out", 0.17)])
def test_recorded_processes_scatter_less_at_a_common_clock(recording, most):
    rows = [row for name, each in RECORDED.items() if name.startswith(recording) for row in each]
    raw, found = ([scatter(cycles) ** 2 for cycles, _ in rows], [scatter(at_common_clock(row).cycles[0]) ** 2 for row in rows])
    assert math.sqrt(statistics.fmean(found)) < most < 0.6 * math.sqrt(statistics.fmean(raw))
