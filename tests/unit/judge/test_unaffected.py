from __future__ import annotations

from dataclasses import replace

import pytest
from factories import (
    FINITE,
    GATES,
    SMALL,
    make_build,
    make_description,
    make_entry_build,
    make_limit,
    make_protocol,
    make_suite,
    make_waiver,
    make_workload,
)

from flashcore_ci.judge.references import References
from flashcore_ci.judge.unaffected import Side, unaffected
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Severity
from flashcore_ci.plan.planner import make_plan as planned

PLAN = planned(make_suite(), (make_description(),))


def side(*, plan=None, builds=None, waivers=(), references=References()) -> Side:  # noqa: B008 - a frozen record
    return Side(plan=plan or PLAN, builds=builds or (make_build(),), waivers=waivers, references=references)


BASE = side()
RUNS = {check.key for check in BASE.plan.checks if check.gate.evidence not in STATIC_KINDS}


def affected(head: Side, base: Side = BASE) -> set[tuple[str, str]]:
    """Return the affected checks, without those on compiler evidence."""
    same = unaffected(head, base)
    return {c.key for c in head.plan.checks if c.key not in same and c.gate.evidence not in STATIC_KINDS}


def gates(**changes: object):
    """The suite's plan with the gate ``finite`` changed."""
    return planned(
        make_suite(gates=tuple(replace(gate, **changes) if gate is FINITE else gate for gate in GATES)), (make_description(),)
    )


def test_equal_code_and_equal_questions() -> None:
    assert affected(side()) == set()
    assert unaffected(side(), BASE) == RUNS


def test_compiler_evidence_is_always_judged() -> None:
    left = {check.key for check in BASE.plan.checks} - unaffected(side(), BASE)
    assert {check.gate.evidence for check in BASE.plan.checks if check.key in left} == STATIC_KINDS - {Kind.ALERTS, Kind.BAR}


@pytest.mark.parametrize("part", ["launcher", "binding", "source", "preprocessed", "host_objects"])
def test_a_digest_of_the_build_affects_all_that_runs(part: str) -> None:
    assert affected(side(builds=(replace(make_build(), **{part: "other"}),))) == RUNS


def test_an_entry_function_affects_the_workloads_that_launch_it() -> None:
    other = make_build(entries=(make_entry_build(digest="other"),))
    assert affected(side(builds=(other,))) == RUNS


def test_a_workload_affects_its_own_checks() -> None:
    plan = planned(make_suite(workloads=(make_workload("big", seed=9), SMALL)), (make_description(),))
    assert {target for _, target in affected(side(plan=plan))} == {"big"}


def test_kernels_that_do_not_compile_are_never_equal() -> None:
    broken = make_build(entries=())
    assert affected(side(builds=(broken,)), side(builds=(broken,))) == RUNS
    assert affected(side(), side(builds=(broken,))) == RUNS


@pytest.mark.parametrize(
    "changes",
    [
        {"limits": (make_limit(1.0),)},
        {"limits": (make_limit(0.0, severity=Severity.ADVISORY),)},
        {"metric": "repeat/differing-runs"},
        {"min_samples": 2},
    ],
)
def test_a_changed_gate_affects_its_checks(changes: dict[str, object]) -> None:
    assert {gate for gate, _ in affected(side(plan=gates(**changes)))} == {"finite"}


@pytest.mark.parametrize("changes", [{"title": "x"}, {"why": "x"}, {"owner": "x"}, {"limits": (make_limit(0.0, why="x"),)}])
def test_titles_and_reasons_affect_nothing(changes: dict[str, object]) -> None:
    assert affected(side(plan=gates(**changes))) == set()


def test_a_new_check_is_affected() -> None:
    few = planned(make_suite(gates=tuple(gate for gate in GATES if gate is not FINITE)), (make_description(),))
    assert {gate for gate, _ in affected(side(), side(plan=few))} == {"finite"}


def test_a_changed_waiver_affects_its_check() -> None:
    waiver = make_waiver()
    for head, base in ((side(waivers=(waiver,)), BASE), (BASE, side(waivers=(waiver,)))):
        assert affected(head, base) == {(waiver.gate, waiver.target)} & RUNS != set()


def test_a_changed_baseline_affects_times() -> None:
    other = side(references=replace(References(), baselines=("another",)))
    assert {gate for gate, _ in affected(other)} == {"stability"}


def test_a_changed_timeout_affects_its_checks() -> None:
    plan = planned(make_suite(protocol=make_protocol(timeouts=((Kind.CORRECTNESS, 9.0),))), (make_description(),))
    assert {gate for gate, _ in affected(side(plan=plan))} == {"finite"}


def test_a_changed_protocol_affects_its_checks() -> None:
    plan = planned(make_suite(protocol=make_protocol(repeats=9)), (make_description(),))
    assert {gate for gate, _ in affected(side(plan=plan))} == {"finite"}


def test_subjects_without_digests_are_always_judged() -> None:
    library = make_description(build=None)
    plan = planned(make_suite(gates=(FINITE,)), (library,))
    assert affected(side(plan=plan), side(plan=plan)) == {check.key for check in plan.checks} != set()
