"""Cutting a plan: every unit once, in balance, the same each time."""

from __future__ import annotations

import dataclasses

import pytest
from factories import BUILD, make_check, make_plan
from hypothesis import given
from hypothesis import strategies as st

from flashcore_ci.model.plan import Plan
from flashcore_ci.model.shard import Unit
from flashcore_ci.model.suite import STATIC_KINDS, Kind
from flashcore_ci.plan import shards

PLAN = make_plan()
UNITS = shards.units_of(PLAN)


def test_units_are_what_a_gpu_measures() -> None:
    assert UNITS
    assert not {unit.kind for unit in UNITS} & STATIC_KINDS


@pytest.mark.parametrize("count", [1, 2, 3, 500])
def test_every_unit_is_in_one_shard(count: int) -> None:
    parts = shards.cut(PLAN, {}, count)
    assert sum(len(units) for units, _ in parts) == len(UNITS)
    assert {unit for units, _ in parts for unit in units} == set(UNITS)
    assert 1 <= len(parts) <= min(count, len(UNITS))
    assert all(units for units, _ in parts)


@given(
    st.lists(st.lists(st.floats(0.0, 100.0), min_size=len(UNITS), max_size=len(UNITS)), min_size=2, max_size=2), st.integers(1, 9)
)
def test_two_splits_by_other_times_are_the_same_plan(times: list[list[float]], count: int) -> None:
    """Times of live runs differ. Each split has every unit once, and its parts ask all checks of the plan that a GPU answers."""
    asked = {check for check in PLAN.checks if check.gate.evidence not in STATIC_KINDS}
    for seconds in times:
        parts = [units for units, _ in shards.cut(PLAN, dict(zip(UNITS, seconds, strict=True)), count)]
        assert sorted(unit for units in parts for unit in map(repr, units)) == sorted(map(repr, UNITS))
        checks = [check for units in parts for check in shards.only(PLAN, units).checks]
        assert len(checks) == len(asked)
        assert set(checks) == asked


def test_the_longest_unit_is_alone_when_it_outweighs_the_rest() -> None:
    longest = UNITS[0]
    parts = shards.cut(PLAN, {**dict.fromkeys(UNITS, 1.0), longest: 1000.0}, 2)
    assert any(units == (longest,) for units, _ in parts)


def test_every_kind_that_a_gpu_measures_can_be_cut() -> None:
    for kind in set(Kind) - STATIC_KINDS:
        unit = Unit(kind=kind, workload="w")
        assert shards._Bin().with_unit(unit, 1.0) > 1.0


def forty(**seconds: float) -> tuple[Plan, dict[Unit, float]]:
    """Return a plan of forty workloads with these kinds of evidence, and how long each takes."""
    plan = dataclasses.replace(PLAN, workloads=tuple(dataclasses.replace(PLAN.workloads[0], id=f"w{n}") for n in range(40)))
    checks = [check for check in PLAN.checks if check.gate.evidence in seconds and check.target == PLAN.workloads[0].id]
    plan = dataclasses.replace(
        plan, checks=tuple(dataclasses.replace(check, target=f"w{n}") for check in checks for n in range(40))
    )
    return plan, {unit: seconds[unit.kind] for unit in shards.units_of(plan)}


def kinds_of(parts: tuple[tuple[tuple[Unit, ...], float], ...]) -> list[set[Kind]]:
    return [{unit.kind for unit in units} for units, _ in parts]


def test_what_costs_processes_is_in_few_shards_and_the_longest_kind_fills_the_rest() -> None:
    plan, seconds = forty(correctness=2.7, timing=1.5)
    (whole,) = shards.cut(plan, seconds, 1)
    first, second = parts = shards.cut(plan, seconds, 2)
    assert kinds_of(parts) == [{Kind.CORRECTNESS, Kind.TIMING}, {Kind.TIMING}]
    assert abs(first[1] - second[1]) <= 1.5
    assert max(first[1], second[1]) < 0.6 * whole[1]


@pytest.mark.parametrize("count", [2, 4])
def test_sanitizers_and_correctness_have_different_gpus_if_there_are_several(count: int) -> None:
    plan, seconds = forty(correctness=4.2, sanitizer=2.5, timing=1.3)
    assert kinds_of(shards.cut(plan, seconds, 1)) == [{Kind.CORRECTNESS, Kind.SANITIZER, Kind.TIMING}]
    parts = shards.cut(plan, seconds, count)
    assert {frozenset(kinds) - {Kind.TIMING} for kinds in kinds_of(parts)} >= {
        frozenset({Kind.CORRECTNESS}),
        frozenset({Kind.SANITIZER}),
    }
    assert not any({Kind.CORRECTNESS, Kind.SANITIZER} <= kinds for kinds in kinds_of(parts))
    assert max(shard[1] for shard in parts) - min(shard[1] for shard in parts) <= 3.0


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0, 1e12])
def test_a_duration_that_cannot_be_is_not_believed(seconds: float) -> None:
    assert shards.cut(PLAN, {UNITS[0]: seconds}, 2) == shards.cut(PLAN, {}, 2)


def test_a_part_measures_its_units_and_nothing_else() -> None:
    for units, _ in shards.cut(PLAN, {}, 2):
        part = shards.only(PLAN, units)
        assert set(shards.units_of(part)) == set(units)
        assert {(check.gate.evidence, check.target) for check in part.checks} == {(unit.kind, unit.workload) for unit in units}


def test_a_unit_that_the_plan_lacks_is_an_error() -> None:
    with pytest.raises(KeyError, match="timing of nowhere"):
        shards.only(PLAN, (Unit(kind=Kind.TIMING, workload="nowhere"),))


def test_a_plan_without_gpu_work_has_no_shard() -> None:
    assert shards.cut(make_plan((make_check(BUILD, "scale"),)), {}, 4) == ()


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_work_of_several_gpus_is_never_cut_for_one(count: int) -> None:
    first, *others = PLAN.workloads
    pair = dataclasses.replace(first, params=(("gpus", 2), *first.params))
    plan = dataclasses.replace(PLAN, workloads=(pair, *others))
    parts = shards.cut(plan, {}, count)
    assert {unit for units, _ in parts for unit in units} == set(UNITS)
    for units, _ in parts:
        sizes = {2 if unit.workload == pair.id else 1 for unit in units}
        assert sizes == {shards.gpus_of(plan, units)}


def test_profiles_are_in_one_shard_next_to_what_hides_their_start() -> None:
    plan, seconds = forty(correctness=4.2, sanitizer=2.5, profile=0.24, timing=1.3)
    first, second = parts = shards.cut(plan, seconds, 2)
    profiled = [kinds for kinds in kinds_of(parts) if Kind.PROFILE in kinds]
    assert len(profiled) == 1
    assert profiled[0] & {Kind.CORRECTNESS, Kind.SANITIZER}
    assert abs(first[1] - second[1]) <= 1.5


def test_a_profile_that_waited_for_another_run_moves_no_work() -> None:
    """Another gate on the same machine held ncu: 38 rows took 27 s, not 12, and the cut gave the other GPU 27 of 37 rows."""
    plan, seconds = forty(correctness=4.2, sanitizer=2.5, profile=0.24, timing=1.3)
    profiled = [unit for unit in seconds if unit.kind is Kind.PROFILE]
    waited = dict(zip(profiled[::3], (0.6, 1.4, 4.5) * len(profiled), strict=False))
    after, before = shards.cut(plan, {**seconds, **waited}, 2), shards.cut(plan, seconds, 2)
    assert [units for units, _ in after] == [units for units, _ in before]
    more = sum(estimate for _, estimate in after) - sum(estimate for _, estimate in before)
    assert more == pytest.approx(sum(waited.values()) - 0.24 * len(waited)), "limits of time hold for profiles that do take long"


def test_estimates_are_near_the_times_of_two_measured_shards() -> None:
    """H200s with 16 cores each, 2026-11-30: seconds from a shard's first process, by the units' times that the cut knew."""
    seconds = {Kind.CORRECTNESS: 169.9, Kind.SANITIZER: 97.0, Kind.PROFILE: 11.7, Kind.TIMING: 51.1}

    def estimate(*kinds: Kind, part: float = 1.0) -> float:
        shard = shards._Bin()
        for kind in kinds:
            shard.seconds = shard.with_unit(Unit(kind=kind, workload="w"), part * seconds[kind] * shards.SHARES.get(kind, 1.0))
            shard.kinds.add(kind)
        return shard.seconds

    assert estimate(Kind.CORRECTNESS) == pytest.approx(16.7, abs=0.7)
    assert estimate(Kind.SANITIZER) == pytest.approx(13.2, abs=0.7)
    assert estimate(Kind.SANITIZER, Kind.PROFILE) == pytest.approx(13.2 + 12.4, abs=0.7)
    assert estimate(Kind.CORRECTNESS, Kind.SANITIZER) == pytest.approx(22.9, abs=0.8)
    assert estimate(Kind.CORRECTNESS, Kind.SANITIZER, part=0.5) == pytest.approx(18.8, abs=0.8)
    assert estimate(Kind.CORRECTNESS, Kind.TIMING) - estimate(Kind.CORRECTNESS) == pytest.approx(53.2, abs=1.0)
    # of the timings, 34.5 s were cut to the first shard. Its first process began at 3.6, and the other's at 3.9
    starts = shards.START_SECONDS[Kind.TIMING]
    assert 3.6 + estimate(Kind.CORRECTNESS) + starts + 34.5 == pytest.approx(57.5, abs=0.9)
    assert 3.9 + estimate(Kind.SANITIZER, Kind.PROFILE) + starts + 16.6 == pytest.approx(48.9, abs=0.9)


def test_a_shard_needs_the_architecture_of_its_own_kernels() -> None:
    (first,) = PLAN.descriptions
    assert first.build is not None
    compiled = dataclasses.replace(first.build.compile, architectures=("sm_90a",))
    built = dataclasses.replace(first, build=dataclasses.replace(first.build, compile=compiled))
    other = dataclasses.replace(PLAN.workloads[0], id="other", subject="when-run")
    when_run = dataclasses.replace(first, subject="when-run", build=None)
    plan = dataclasses.replace(PLAN, workloads=(*PLAN.workloads, other), descriptions=(built, when_run))
    foreign = Unit(kind=Kind.TIMING, workload="other")
    assert shards.architecture_of(plan, UNITS) == "sm_90a"
    assert shards.architecture_of(plan, (foreign,)) == ""
    assert shards.architecture_of(plan, (*UNITS, foreign)) == "sm_90a"
