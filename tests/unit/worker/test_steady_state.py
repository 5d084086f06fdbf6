import json
import statistics
from pathlib import Path

import pytest

from flashcore_ci.model.timing_protocol import COMPARED, TIMED
from flashcore_ci.worker import steady_state
from flashcore_ci.worker.steady_state import Block

BLOCKS = json.loads((Path(__file__).parents[2] / "recordings/timing/blocks.json").read_text(encoding="utf-8"))


def steady(count=100, *, every=0.015, slope=0.0, clock=1800.0, clock_slope=0.0, throttled=()):
    """Make blocks of one megacycle per launch. ``slope`` is in per cent per second, ``clock_slope`` in MHz per second."""
    blocks = []
    for index in range(count):
        at = (index + 1) * every
        mhz = clock + clock_slope * at
        blocks.append(Block(at=at, ms=(1 + slope / 100 * at) / mhz * 1e3, mhz=mhz, throttled=index in throttled))
    return blocks


def recorded(name):
    return [Block(at=at, ms=ms, mhz=mhz) for at, ms, mhz in BLOCKS[name]]


def first_settled(blocks, rule=COMPARED):
    return next(state for index in range(1, len(blocks) + 1) if (state := steady_state.assess(blocks[:index], rule)).settled)


def test_a_flat_window_after_the_lead_is_settled():
    state = steady_state.assess(steady(count=21))
    assert state.settled
    assert state.drift == pytest.approx(0.0, abs=1e-9)
    assert all(block.at > COMPARED.lead for block in state.blocks)
    assert len(state.blocks) == pytest.approx(13, abs=1)


def test_less_than_lead_and_window_is_not():
    assert not steady_state.assess(steady(count=18)).settled
    assert not steady_state.assess(()).settled


@pytest.mark.parametrize(("slope", "settled"), [(2.5, True), (-2.5, True), (3.5, False), (-3.5, False)])
def test_the_limit_of_the_drift_is_three_tenths_of_a_per_cent_from_half_to_half(slope, settled):
    state = steady_state.assess(steady(slope=slope))
    assert state.settled is settled
    assert state.drift == pytest.approx(slope * COMPARED.window / 2, rel=0.15)


@pytest.mark.parametrize(("clock_slope", "settled"), [(250.0, True), (-250.0, True), (350.0, False), (-350.0, False)])
def test_the_clock_may_move_thirty_megahertz_from_half_to_half(clock_slope, settled):
    state = steady_state.assess(steady(clock_slope=clock_slope))
    assert state.settled is settled
    assert state.clock_move == pytest.approx(abs(clock_slope) * COMPARED.window / 2, rel=0.15)


def test_a_single_outlier_decides_nothing():
    blocks = steady()
    blocks[-1] = Block(at=blocks[-1].at, ms=blocks[-1].ms * 50, mhz=1800.0)
    assert steady_state.assess(blocks).settled


def test_throttled_blocks_are_not_sampled():
    state = steady_state.assess(steady(throttled=range(90, 94)))
    assert state.settled
    assert not any(block.throttled for block in state.blocks)


def test_a_window_that_was_mostly_throttled_is_not_settled():
    assert not steady_state.assess(steady(throttled=range(90, 98))).settled
    assert not steady_state.assess(steady(throttled=range(100))).settled


def test_long_launches_make_the_window_longer():
    assert not steady_state.assess(steady(count=7, every=0.2)).settled
    state = steady_state.assess(steady(count=9, every=0.2))
    assert state.settled
    assert len(state.blocks) == COMPARED.min_blocks


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_every_recorded_kernel_settles_within_a_second_to_its_final_cycles(name):
    blocks = recorded(name)
    state = first_settled(blocks)
    assert COMPARED.lead + COMPARED.window <= state.blocks[-1].at < 1.0
    final = statistics.median(block.megacycles for block in blocks if block.at > 3.0)
    assert statistics.median(block.megacycles for block in state.blocks) == pytest.approx(final, rel=3e-3)


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_the_timing_of_one_side_ends_sooner_and_near_the_final_cycles(name):
    blocks = recorded(name)
    state = first_settled(blocks, TIMED)
    assert state.blocks[-1].at < first_settled(blocks).blocks[-1].at
    final = statistics.median(block.megacycles for block in blocks if block.at > 3.0)
    assert statistics.median(block.megacycles for block in state.blocks) == pytest.approx(final, rel=1e-2)


def test_in_milliseconds_the_same_kernel_had_not_settled():
    blocks = recorded("attention-s8192-d128")
    sample = first_settled(blocks).blocks
    final = statistics.median(block.ms for block in blocks if block.at > 3.0)
    assert statistics.median(block.ms for block in sample) < 0.99 * final


def test_relative_std():
    assert steady_state.relative_std([1.0, 1.0]) == 0
    assert steady_state.relative_std([0.99, 1.01]) == pytest.approx(1.0)


@pytest.mark.parametrize("rule", [TIMED, COMPARED])
@pytest.mark.parametrize("every", [0.0049, 0.0153, 0.0157, 0.051])
def test_the_block_that_may_be_last_is_the_first_that_can_settle(rule, every):
    blocks = steady(200, every=every)
    settles = next(count for count in range(1, 200) if steady_state.assess(blocks[:count], rule).settled)
    first = next(count for count in range(1, 200) if steady_state.may_be_last(blocks[:count], rule))
    assert first + 1 == settles


def test_no_block_is_the_last_one_before_two_are_known():
    assert not steady_state.may_be_last((), TIMED)
    assert not steady_state.may_be_last(steady(1, every=9.0), TIMED)
