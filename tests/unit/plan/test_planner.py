from dataclasses import replace

import pytest
from factories import (
    BUILD,
    FINITE,
    GATES,
    MEMCHECK,
    SMALL,
    SOL_DRAM,
    SPILLS,
    STABILITY,
    make_description,
    make_gate,
    make_limit,
    make_problem,
    make_suite,
    make_workload,
)

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.suite import Kind, Roof, Scope, Severity
from flashcore_ci.plan.planner import make_plan, narrow, require_blocking

SUITE = make_suite()
DESCRIPTIONS = (make_description(),)


def planned(suite=SUITE, descriptions=DESCRIPTIONS):
    return make_plan(suite, descriptions)


def refused(suite=SUITE, descriptions=DESCRIPTIONS):
    with pytest.raises(SuiteError) as caught:
        make_plan(suite, descriptions)
    assert caught.value.fix
    return caught.value.problems


class TestChecks:
    def test_gates_come_in_suite_order_each_with_its_targets(self):
        assert [check.key for check in planned().checks] == [
            ("build", "scale"),
            ("spills", "scale_f32"),
            ("finite", "big"),
            ("finite", "small"),
            ("memcheck", "big"),
            ("memcheck", "small"),
            ("sol-dram", "big"),
            ("stability", "big"),
        ]

    def test_scopes_follow_the_evidence(self):
        scopes = {check.gate.id: check.scope for check in planned().checks}
        assert (scopes["build"], scopes["spills"], scopes["finite"]) == (Scope.SUBJECT, Scope.ENTRY, Scope.WORKLOAD)

    def test_every_gate_and_target_is_there_or_excluded(self):
        plan = planned()
        seen = [check.key for check in plan.checks] + [(excluded.gate, excluded.target) for excluded in plan.excluded]
        assert len(seen) == len(set(seen)) == 2 + 4 * 2
        assert all(excluded.why for excluded in plan.excluded)

    def test_the_same_suite_gives_the_same_plan(self):
        assert planned() == planned()

    def test_the_first_limit_that_matches_counts(self):
        strict = make_limit(1.0, on="bi*", severity=Severity.ADVISORY)
        gate = replace(FINITE, limits=(strict, make_limit(2.0)))
        limits = {check.target: check.limit.value for check in planned(make_suite(gates=(gate,))).checks}
        assert limits == {"big": 1.0, "small": 2.0}

    @pytest.mark.parametrize(
        ("gate", "why"),
        [
            (replace(FINITE, on=("big", "x*")), "the gate is for big, x*"),
            (replace(FINITE, roofs=(Roof.MEMORY, Roof.COMPUTE)), "its roof is balanced, the gate is for memory, compute"),
            (replace(FINITE, tags=("normal",)), "its tags are none, the gate is for normal"),
        ],
    )
    def test_why_a_gate_does_not_apply(self, gate, why):
        workloads = (make_workload("big", tags=("normal",)), SMALL)
        plan = planned(make_suite(gates=(gate, MEMCHECK), workloads=workloads))
        assert [(excluded.target, excluded.why) for excluded in plan.excluded] == [("small", why)]

    def test_what_is_not_collected_is_not_judged(self):
        workloads = (make_workload("big"), make_workload("small", collect=(Kind.TIMING,)))
        plan = planned(make_suite(gates=(FINITE, STABILITY), workloads=workloads))
        assert plan.excluded[0].why == "the workload asks for timing, not for correctness"

    def test_a_subject_without_machine_code_has_no_static_gates_and_says_so(self):
        plan = planned(descriptions=(make_description(build=None),))
        static = [excluded for excluded in plan.excluded if excluded.gate in {"build", "spills"}]
        assert [excluded.target for excluded in static] == ["scale", "scale"]
        assert all("no machine code" in excluded.why for excluded in static)
        assert "finite" in {check.gate.id for check in plan.checks}

    def test_a_build_gate_judges_the_workloads_whose_machine_code_is_collected(self):
        workloads = (make_workload("big", collect=(Kind.CORRECTNESS, Kind.MACHINE_CODE)), SMALL)
        suite = make_suite(workloads=workloads, gates=(SPILLS, FINITE))
        plan = planned(suite, descriptions=(make_description(build=None),))
        (check,) = [check for check in plan.checks if check.gate.id == "spills"]
        assert (check.target, check.scope, check.gate.evidence) == ("big", Scope.WORKLOAD, Kind.MACHINE_CODE)
        (excluded,) = [excluded for excluded in plan.excluded if excluded.gate == "spills"]
        assert (excluded.target, 'name "machine-code"' in excluded.why) == ("small", True)
        assert [workload.id for workload in plan.workloads_for(Kind.MACHINE_CODE)] == ["big"]

    def test_machine_code_from_the_build_is_not_collected_again(self):
        workloads = (make_workload("big", collect=(Kind.CORRECTNESS, Kind.MACHINE_CODE)), SMALL)
        with pytest.raises(SuiteError, match="the machine code of scale comes from the build"):
            planned(make_suite(workloads=workloads))

    def test_collectors_ask_for_what_workloads_want(self):
        workloads = (make_workload("big"), make_workload("small", collect=(Kind.CORRECTNESS,)))
        plan = planned(make_suite(gates=(FINITE,), workloads=workloads))
        assert [workload.id for workload in plan.workloads_for(Kind.CORRECTNESS)] == ["big", "small"]
        assert [workload.id for workload in plan.workloads_for(Kind.TIMING)] == ["big"]

    def test_a_plan_knows_its_subjects(self):
        assert planned().description("scale") == DESCRIPTIONS[0]
        assert planned().description("scale").problem("big").flops == 1e9
        with pytest.raises(KeyError):
            planned().description("other")
        with pytest.raises(KeyError):
            planned().description("scale").problem("other")


class TestRefusals:
    def test_a_gate_that_applies_to_nothing(self):
        gate = replace(SOL_DRAM, roofs=(Roof.COMPUTE,))
        assert refused(make_suite(gates=(FINITE, gate))) == (
            "gates/tiny.toml: the gate sol-dram applies to nothing: no target passes all of on, roofs and tags",
        )

    def test_a_workload_that_no_gate_judges(self):
        assert refused(make_suite(gates=(SOL_DRAM,))) == ("gates/tiny.toml: no gate judges small",)

    def test_a_suite_in_which_nothing_blocks(self):
        gate = replace(FINITE, limits=(make_limit(severity=Severity.ADVISORY),))
        (line,) = refused(make_suite(gates=(gate,)))
        assert "no check blocks" in line

    @pytest.mark.parametrize(
        "descriptions",
        [
            (make_description(), make_description("other", workloads=())),
            (make_description(entries=("scale_f32", "scale_f32")),),
        ],
    )
    def test_entry_functions_of_one_name_would_answer_for_each_other(self, descriptions):
        (line,) = refused(descriptions=descriptions)
        assert line.startswith("2 entry functions are called scale_f32")

    def test_a_target_without_a_limit(self):
        suite = make_suite(gates=(replace(FINITE, limits=(make_limit(on="big"),)),))
        suite = replace(suite, sources=(("gate finite", "gates/tiny.toml:gate[0]"),))
        assert refused(suite) == ("gates/tiny.toml:gate[0]: no limit matches small",)

    @pytest.mark.parametrize("change", [{"on": ("scal_*",)}, {"limits": (make_limit(unit="byte"), make_limit(on="scal_*"))}])
    def test_a_glob_that_matches_no_entry_function(self, change):
        lines = refused(make_suite(gates=(replace(SPILLS, **change), BUILD)))
        assert lines == ('gates/tiny.toml: "scal_*" matches no entry function',)

    def test_globs_over_entries_are_idle_where_there_is_no_machine_code(self):
        gate = replace(SPILLS, on=("scal_*",))
        assert planned(make_suite(gates=(gate, FINITE)), (make_description(build=None),)).checks


class TestRoofs:
    """The ridge of the suite is at 206 FLOP a byte, so 51.5 and 824 are a factor of 4 away."""

    @staticmethod
    def lines(roof, intensity, collect=(Kind.PROFILE, Kind.CORRECTNESS)):
        workload = make_workload("big", roof=roof, collect=collect)
        description = make_description(problems=(make_problem("big", flops=intensity * 1e6, bytes=1e6),))
        try:
            planned(make_suite(workloads=(workload,), gates=(FINITE, BUILD)), (description,))
        except SuiteError as error:
            return error.problems
        return ()

    @pytest.mark.parametrize(
        ("roof", "intensity"),
        [
            (Roof.MEMORY, 0.1),
            (Roof.MEMORY, 800.0),
            (Roof.COMPUTE, 52.0),
            (Roof.COMPUTE, 4000.0),
            (Roof.BALANCED, 52.0),
            (Roof.BALANCED, 206.0),
            (Roof.BALANCED, 800.0),
        ],
    )
    def test_right_and_near_ones_pass(self, roof, intensity):
        assert self.lines(roof, intensity) == ()

    @pytest.mark.parametrize(
        ("roof", "intensity", "right"),
        [
            (Roof.MEMORY, 830.0, "compute"),
            (Roof.COMPUTE, 51.0, "memory"),
            (Roof.COMPUTE, 0.0, "memory"),
            (Roof.BALANCED, 51.0, "memory"),
            (Roof.BALANCED, 830.0, "compute"),
        ],
    )
    def test_wrong_ones_are_refused_with_figures_and_the_right_one(self, roof, intensity, right):
        (line,) = self.lines(roof, intensity)
        for words in ("gates/tiny.toml", "big", f"cannot be {roof}", f"{intensity:.4g} FLOP/byte", "206", f'roof = "{right}"'):
            assert words in line

    def test_only_what_is_profiled_needs_a_roof(self):
        assert self.lines(Roof.MEMORY, 4000.0, collect=(Kind.CORRECTNESS,)) == ()

    def test_nothing_to_move_is_compute(self):
        workload = make_workload("big", roof=Roof.MEMORY)
        description = make_description(problems=(make_problem("big", bytes=0.0),))
        (line,) = refused(make_suite(workloads=(workload,)), (description,))
        assert 'roof = "compute"' in line

    def test_every_wrong_roof_is_named(self):
        workloads = tuple(make_workload(name, roof=Roof.COMPUTE) for name in ("big", "small"))
        assert len(refused(make_suite(workloads=workloads, gates=(FINITE,)))) == 2


class TestNarrow:
    def test_no_glob_is_the_whole_plan(self):
        assert narrow(planned(), ()) == planned()

    @pytest.mark.parametrize(
        ("globs", "keys"),
        [
            (["finite"], [("finite", "big"), ("finite", "small")]),
            (["sol-*", "spills"], [("spills", "scale_f32"), ("sol-dram", "big")]),
            (["small"], [("finite", "small"), ("memcheck", "small")]),
            (["finite/s*"], [("finite", "small")]),
            (["finite/small", "s?ills"], [("spills", "scale_f32"), ("finite", "small")]),
        ],
    )
    def test_globs_are_over_gates_targets_and_pairs(self, globs, keys):
        assert [check.key for check in narrow(planned(), globs).checks] == keys

    def test_evidence_without_a_check_is_not_collected(self):
        plan = narrow(planned(), ["finite/big", "stability"])
        assert [(workload.id, workload.collect) for workload in plan.workloads] == [("big", (Kind.CORRECTNESS, Kind.TIMING))]

    def test_advisory_checks_alone_judge_nothing_but_may_be_measured(self):
        advisory = replace(STABILITY, limits=(make_limit(2.0, "%", severity=Severity.ADVISORY),))
        plan = planned(make_suite(gates=(BUILD, SPILLS, FINITE, MEMCHECK, SOL_DRAM, advisory)))
        require_blocking(narrow(plan, ["stability", "finite"]))
        alone = narrow(plan, ["stability"])
        require_blocking(alone, measures=True)
        with pytest.raises(SuiteError, match="no check that --only selects blocks"):
            require_blocking(alone)

    def test_exclusions_are_narrowed_too(self):
        assert {excluded.gate for excluded in narrow(planned(), ["sol-dram"]).excluded} == {"sol-dram"}

    def test_a_glob_that_selects_nothing_is_an_error_even_beside_one_that_does(self):
        with pytest.raises(SuiteError, match="no check matches 'fintie'"):
            narrow(planned(), ["fintie", "finite"])

    def test_a_glob_that_selects_nothing_is_named_once(self):
        with pytest.raises(SuiteError) as refused:
            narrow(planned(), ["fintie", "fintie"])
        assert len(refused.value.problems) == 1


def test_every_statistic_gate_of_the_builders_is_planned():
    assert {gate.id for gate in GATES} == {check.gate.id for check in planned().checks}
    assert STABILITY.min_samples == SUITE.protocol.timing_processes


def test_gates_of_one_kind_do_not_disturb_each_other():
    other = make_gate("other", on=("small",))
    keys = [check.key for check in planned(make_suite(gates=(FINITE, other))).checks]
    assert keys == [("finite", "big"), ("finite", "small"), ("other", "small")]
