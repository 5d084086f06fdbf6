"""Comparisons in the plan: only where a base was asked for, and only of what the base can run."""

from dataclasses import replace

import pytest
from comparing import NO_SLOWER
from factories import FINITE, SMALL, make_description, make_suite, make_workload

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan.planner import NO_BASE, drop_comparisons, make_plan, narrow

BIG = make_workload("big", collect=(Kind.CORRECTNESS, Kind.COMPARISON))
SUITE = make_suite(gates=(FINITE, NO_SLOWER), workloads=(BIG, SMALL))
DESCRIPTIONS = (make_description(),)


def keys(plan):
    return [check.key for check in plan.checks]


def test_without_a_base_there_is_nothing_to_compare_and_the_plan_says_so():
    plan = make_plan(SUITE, DESCRIPTIONS)
    assert keys(plan) == [("finite", "big"), ("finite", "small")]
    assert {(e.gate, e.target): e.why for e in plan.excluded}["no-slower", "big"] == NO_BASE
    assert plan.workloads_for(Kind.COMPARISON) == ()


def test_with_a_base_there_is():
    plan = make_plan(SUITE, DESCRIPTIONS, compared=True)
    assert ("no-slower", "big") in keys(plan)
    assert [workload.id for workload in plan.workloads_for(Kind.COMPARISON)] == ["big"]


def test_what_the_base_cannot_run_is_out_of_the_plan_with_the_reason():
    plan = drop_comparisons(make_plan(SUITE, DESCRIPTIONS, compared=True), {"big": "the base has no entry function scale_f32"})
    assert keys(plan) == [("finite", "big"), ("finite", "small")]
    why = {(e.gate, e.target): e.why for e in plan.excluded}["no-slower", "big"]
    assert why == "no-base: the base has no entry function scale_f32"
    assert plan.workloads_for(Kind.COMPARISON) == ()


def test_what_the_base_can_run_stays():
    plan = make_plan(SUITE, DESCRIPTIONS, compared=True)
    assert drop_comparisons(plan, {}) == plan
    assert drop_comparisons(plan, {"small": "it is too old"}) == plan


def test_a_workload_may_be_there_for_comparisons_alone():
    alone = replace(SUITE, workloads=(replace(BIG, collect=(Kind.COMPARISON,)), SMALL))
    assert [workload.id for workload in make_plan(alone, DESCRIPTIONS).workloads] == ["small"]
    assert [workload.id for workload in make_plan(alone, DESCRIPTIONS, compared=True).workloads] == ["big", "small"]


def test_a_comparison_gate_that_applies_to_nothing_is_still_refused():
    suite = replace(SUITE, gates=(FINITE, replace(NO_SLOWER, on=("small",))))
    with pytest.raises(SuiteError, match="applies to nothing"):
        make_plan(suite, DESCRIPTIONS)


@pytest.mark.parametrize("glob", ["no-slower", "*slower", "no-slower/*"])
def test_asking_only_for_comparisons_needs_a_base(glob):
    with pytest.raises(SuiteError) as caught:
        narrow(make_plan(SUITE, DESCRIPTIONS), [glob])
    assert "--base" in caught.value.problems[0]
