import math
from dataclasses import replace

import pytest
from evidence_factories import good_evidence, good_observation, good_static, make_evidence, make_provenance, with_reading
from factories import (
    BUILD,
    CHECKS,
    COMPILE_ERROR,
    FAILED_BUILD,
    FINITE,
    MEMCHECK,
    SOL_DRAM,
    SPILLS,
    STABILITY,
    make_build,
    make_check,
    make_description,
    make_entry_build,
    make_gate,
    make_limit,
    make_plan,
    make_problem,
    make_protocol,
    make_waiver,
    make_workload,
)
from report_factories import LIVE, RECORDED

from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.codes import NEXT_STEP, SUBJECT_AT_FAULT, Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured, Missing, Samples
from flashcore_ci.model.suite import Kind, Rule, Severity
from flashcore_ci.model.verdict import Origin, Outcome, StalePolicy

PLAN = make_plan()
BUILDS = (make_build(),)
GOOD = good_evidence(PLAN)
NOON = "2026-11-21T12:00:00Z"


def judged(*evidence, plan=PLAN, builds=BUILDS, origin=LIVE, waivers=(), as_of=NOON, stale=StalePolicy.BLOCK):
    sources = tuple(item if isinstance(item, Source) else Source(origin=origin, evidence=item) for item in evidence)
    report = judge(plan, builds, sources, waivers=waivers, as_of=as_of, stale=stale, tool="test")
    assert [(verdict.gate, verdict.target) for verdict in report.verdicts] == [check.key for check in plan.checks]
    return report


def only(report, gate, target="big"):
    return next(verdict for verdict in report.verdicts if (verdict.gate, verdict.target) == (gate, target))


def one(check, *observations, **keywords):
    """The verdict on a plan of this one check."""
    plan = make_plan((check,))
    return judged(make_evidence(observations=observations), plan=plan, **keywords).verdicts[0]


def seen(check, **changes):
    """The verdict on a good observation with ``changes``."""
    plan = make_plan((check,))
    return one(check, good_observation(plan, BUILDS[0], check.gate.evidence, check.target, **changes))


class TestGreen:
    def test_good_evidence_passes_everything(self):
        report = judged(GOOD)
        assert {verdict.outcome for verdict in report.verdicts} == {Outcome.PASS}
        assert (report.outcome, report.exit_code) == (Outcome.PASS, 0)
        assert report.headline == "PASS: 7 of 7 checks passed"
        assert not any(verdict.blocks or verdict.next_step for verdict in report.verdicts)

    def test_the_report_says_what_was_judged(self):
        report = judged(GOOD)
        assert (report.suite, report.tool, report.as_of) == ("tiny", "test", NOON)
        assert (report.excluded, report.builds, report.provenance) == (PLAN.excluded, BUILDS, GOOD.provenance)
        assert report.notes == ("7 checks (subjects: 1, entry functions: 1, workloads: 2); 1 combinations do not apply",)

    def test_a_verdict_carries_its_gate(self):
        verdict = only(judged(GOOD), "sol-dram")
        assert (verdict.limit, verdict.unit, verdict.rule) == (85.0, "%", Rule.AT_LEAST)
        assert (verdict.title, verdict.why, verdict.subject) == ("the gate sol-dram", "because", "scale")
        assert verdict.reading == Measured(value=91.5, unit="%")
        assert (verdict.reason.code, verdict.reason.message) == (Code.WITHIN_LIMIT, "91.5 % >= 85 %")
        assert verdict.reason.facts == (("sol/sm", "12 %"),)
        assert verdict.origin == LIVE

    def test_the_reason_of_a_limit_is_shown_before_that_of_the_gate(self):
        check = make_check(replace(FINITE, limits=(make_limit(why="this one is special"),)))
        assert seen(check).why == "this one is special"

    def test_seconds_are_shared_by_the_checks_of_one_observation(self):
        other = make_gate("other", metric="repeat/differing-runs")
        plan = make_plan((make_check(FINITE), make_check(other)))
        seconds = [verdict.seconds for verdict in judged(good_evidence(plan), plan=plan).verdicts]
        assert seconds == [0.75, 0.75]

    def test_the_same_evidence_gives_the_same_report(self):
        assert judged(GOOD) == judged(GOOD)


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "value", "code"),
        [
            (Rule.LESS, 0.999, Code.WITHIN_LIMIT),
            (Rule.LESS, 1.0, Code.OVER_LIMIT),
            (Rule.AT_MOST, 1.0, Code.WITHIN_LIMIT),
            (Rule.AT_MOST, math.nextafter(1.0, 2.0), Code.OVER_LIMIT),
            (Rule.AT_LEAST, 1.0, Code.WITHIN_LIMIT),
            (Rule.AT_LEAST, math.nextafter(1.0, 0.0), Code.UNDER_LIMIT),
            (Rule.EQUAL, 1.0, Code.WITHIN_LIMIT),
            (Rule.EQUAL, 2.0, Code.OVER_LIMIT),
            (Rule.EQUAL, 0.0, Code.UNDER_LIMIT),
        ],
    )
    def test_each_rule_at_its_edge(self, rule, value, code):
        check = make_check(replace(FINITE, rule=rule, limits=(make_limit(1.0),)))
        verdict = seen(check, readings=(("finite/bad-values", Measured(value=value, unit="count")),))
        assert verdict.reason.code is code
        assert verdict.outcome is (Outcome.PASS if code is Code.WITHIN_LIMIT else Outcome.FAIL)
        assert verdict.blocks is (code is not Code.WITHIN_LIMIT)
        assert verdict.next_step == NEXT_STEP.get(code, "")

    @pytest.mark.parametrize("rule", list(Rule))
    def test_nan_that_slipped_in_is_never_a_pass(self, rule):
        broken = Measured(value=0.0, unit="count")
        object.__setattr__(broken, "value", math.nan)
        check = make_check(replace(FINITE, rule=rule))
        assert seen(check, readings=(("finite/bad-values", broken),)).outcome is Outcome.FAIL

    @pytest.mark.parametrize("code", [code for code in Code if code is not Code.WITHIN_LIMIT])
    def test_no_number_is_never_a_pass(self, code):
        missing = Missing(code=code, message="why not")
        for changes in ({"readings": (("finite/bad-values", missing),)}, {"missing": missing}):
            verdict = seen(make_check(FINITE), **changes)
            assert verdict.outcome is (Outcome.FAIL if code in SUBJECT_AT_FAULT else Outcome.INCONCLUSIVE)
            assert verdict.blocks
            assert verdict.reading == missing
            assert (verdict.reason.code, verdict.reason.message) == (code, "why not")
            assert verdict.next_step

    def test_a_metric_that_is_not_there(self):
        verdict = seen(make_check(FINITE), readings=())
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.METRIC_ABSENT)

    def test_another_unit_is_not_compared(self):
        verdict = seen(make_check(FINITE), readings=(("finite/bad-values", Measured(value=0.0, unit="%")),))
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.UNIT_MISMATCH)
        assert verdict.reason.message == "0 % against == 0 count"

    @pytest.mark.parametrize("rule", [Rule.LESS, Rule.AT_MOST, Rule.EQUAL])
    def test_a_sentinel_below_zero_is_no_reading(self, rule):
        check = make_check(replace(FINITE, rule=rule, limits=(make_limit(-1.0 if rule is Rule.EQUAL else 1.0),)))
        verdict = seen(check, readings=(("finite/bad-values", Measured(value=-1.0, unit="count")),))
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

    def test_an_advisory_gate_is_red_and_does_not_block(self):
        check = make_check(replace(FINITE, limits=(make_limit(severity=Severity.ADVISORY),)))
        plan = make_plan((check,))
        evidence = with_reading(good_evidence(plan), Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=1.0, unit="count"))
        report = judged(evidence, plan=plan)
        verdict = report.verdicts[0]
        assert (verdict.outcome, verdict.blocks, report.exit_code) == (Outcome.FAIL, False, 0)
        assert report.headline == "PASS: 0 of 1 checks passed, 1 red but advisory"


class TestFindingsNotesAndFacts:
    def test_one_sanitizer_does_not_show_the_findings_of_another(self):
        findings = (Finding(tool="memcheck", message="a"), Finding(tool="racecheck", message="b"))
        verdict = seen(make_check(MEMCHECK), findings=findings)
        assert verdict.findings == findings[:1]
        assert verdict.reason.facts == (("memcheck/launches", "2 count"),)

    def test_facts_say_why_a_neighbour_is_missing(self):
        missing = Missing(code=Code.TOOL_FAILED, message="it failed")
        readings = (("memcheck/findings", missing), ("memcheck/launches", missing))
        assert seen(make_check(MEMCHECK), readings=readings).reason.facts == (("memcheck/launches", "none: it failed"),)

    def test_other_findings_are_all_shown(self):
        findings = (Finding(tool="anything", message="a"),)
        assert seen(make_check(FINITE), findings=findings).findings == findings

    @pytest.mark.parametrize(("value", "notes"), [(0.0, ()), (16.0, ("no HGMMA in the machine code",))])
    def test_notes_on_an_entry_function_are_shown_where_it_is_red(self, value, notes):
        check = make_check(SPILLS, "scale_f32")
        plan = make_plan((check,))
        observation = good_static(
            plan,
            BUILDS[0],
            Kind.RESOURCES,
            "scale_f32",
            notes=("no HGMMA in the machine code",),
            readings=(("spills/bytes", Measured(value=value, unit="byte")),),
        )
        assert one(check, observation).notes == notes

    def test_other_notes_are_always_shown(self):
        assert seen(make_check(FINITE), notes=("seen on GPU 3",)).notes == ("seen on GPU 3",)


class TestStability:
    CHECK = make_check(STABILITY)

    def verdict(self, *values, unit="Mcycle", more=()):
        return seen(self.CHECK, samples=(("cycles/gpu/cold", Samples(values=values, unit=unit)), *more))

    def test_a_spread_below_its_limit(self):
        verdict = self.verdict(99.0, 100.0, 101.0, 100.0, 100.0)
        assert verdict.outcome is Outcome.PASS
        assert verdict.reading.value == pytest.approx(math.sqrt(0.5))
        assert verdict.reading.unit == "%"

    def test_a_spread_above_its_limit(self):
        verdict = self.verdict(95.0, 100.0, 105.0, 100.0, 102.0)
        assert (verdict.outcome, verdict.reason.code) == (Outcome.FAIL, Code.OVER_LIMIT)

    def test_facts_show_processes_ranges_time_and_clock(self):
        more = (
            ("time/gpu/cold", Samples(values=(1.0, 2.0), unit="ms")),
            ("clock/sm", Samples(values=(1700.0,), unit="MHz")),
            ("other", Samples(values=(), unit="MHz")),
            ("offset", Samples(values=(-1.0, 1.0), unit="ms")),
        )
        assert self.verdict(100.0, 100.0, 100.0, 100.0, 101.0, more=more).reason.facts == (
            ("processes", "5"),
            ("cycles/gpu/cold", "100 to 101 Mcycle, std 0.45 %"),
            ("time/gpu/cold", "1 to 2 ms, std 47 %"),
            ("clock/sm", "1700 to 1700 MHz"),
            ("other", "no value"),
            ("offset", "-1 to 1 ms"),
        )

    @pytest.mark.parametrize("values", [(), (1.0,), (1.0,) * 4])
    def test_too_few_processes(self, values):
        verdict = self.verdict(*values)
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.TOO_FEW_PROCESSES)
        assert verdict.reason.message == f"{len(values)} processes gave a value, 5 are needed"

    def test_one_sample_has_no_spread_even_if_the_gate_is_content_with_one(self):
        check = make_check(replace(STABILITY, min_samples=1))
        verdict = seen(check, samples=(("cycles/gpu/cold", Samples(values=(1.0,), unit="Mcycle")),))
        assert verdict.reason.code is Code.TOO_FEW_PROCESSES

    def test_no_samples_at_all(self):
        assert seen(self.CHECK, samples=()).reason.code is Code.METRIC_ABSENT

    @pytest.mark.parametrize("values", [(0.0,) * 5, (-1.0,) * 5, (1e308,) * 5])
    def test_what_has_no_relative_spread(self, values):
        verdict = self.verdict(*values)
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

    def test_two_speeds_are_said(self):
        verdict = self.verdict(100.0, 100.1, 103.0, 103.1, 103.0)
        assert verdict.outcome is Outcome.PASS
        assert verdict.notes == ("two speeds: 3 near 103.033 Mcycle, 2 near 100.05 Mcycle",)


class TestMatching:
    def test_the_first_source_that_matches_answers(self):
        red = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=3.0, unit="count"))
        sources = [Source(origin=RECORDED, evidence=red), Source(origin=LIVE, evidence=GOOD)]
        verdict = only(judged(*sources), "finite")
        assert (verdict.outcome, verdict.origin) == (Outcome.FAIL, RECORDED)
        verdict = only(judged(*reversed(sources)), "finite")
        assert (verdict.outcome, verdict.origin) == (Outcome.PASS, LIVE)

    @pytest.mark.parametrize("order", [1, -1])
    def test_a_red_recording_cannot_be_hidden_behind_a_green_one(self, order):
        red = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=3.0, unit="count"))
        sources = [Source(origin=RECORDED, evidence=evidence) for evidence in (GOOD, red)][::order]
        assert only(judged(*sources), "finite").outcome is Outcome.FAIL
        assert only(judged(*sources), "finite", "small").outcome is Outcome.PASS

    def test_a_source_that_measured_something_else_is_passed_over(self):
        stale = good_evidence(PLAN, (make_build(launcher="other"),))
        report = judged(Source(origin=LIVE, evidence=stale), Source(origin=RECORDED, evidence=GOOD))
        assert report.outcome is Outcome.PASS
        assert {verdict.origin for verdict in report.verdicts} == {RECORDED}

    def test_a_missing_reading_that_matches_is_an_answer(self):
        busy = Missing(code=Code.GPU_BUSY, message="busy")
        live = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, busy)
        verdict = only(judged(Source(origin=LIVE, evidence=live), Source(origin=RECORDED, evidence=GOOD)), "finite")
        assert verdict.reason.code is Code.GPU_BUSY

    @pytest.mark.parametrize(
        ("build", "part"),
        [
            ({"entries": (make_entry_build(digest="new"),)}, "machine code"),
            ({"launcher": "new"}, "launcher"),
            ({"binding": "new"}, "binding"),
            ({"source": "new"}, "subject"),
            ({"source": "new", "binding": "new"}, "binding, subject"),
        ],
    )
    def test_what_changed_is_named(self, build, part):
        verdict = only(judged(GOOD, builds=(make_build(**build),)), "finite")
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.STALE_EVIDENCE)
        assert verdict.reason.message == f"the evidence is of something else; changed since: {part}"
        assert verdict.reason.facts == (("changed", part.replace("machine code", "machine_code")),)
        assert verdict.blocks
        assert verdict.origin == Origin(kind="none")

    def test_a_changed_workload_and_a_changed_protocol_are_named(self):
        plan = make_plan(workloads=(make_workload("big", seed=1), make_workload("small", params=(("n", 7),))))
        report = judged(GOOD, plan=plan)
        assert only(report, "finite").reason.facts == (("changed", "workload"),)
        assert only(report, "finite", "small").outcome is Outcome.PASS
        report = judged(GOOD, plan=make_plan(protocol=make_protocol(timing_processes=6)))
        assert only(report, "stability").reason.facts == (("changed", "collector"),)
        assert only(report, "finite").outcome is Outcome.PASS

    def test_what_a_workload_is_called_does_not_matter_to_its_digest_but_its_id_finds_it(self):
        tags = make_plan(workloads=(make_workload("big", tags=("new",)), make_workload("small", params=(("n", 7),))))
        assert judged(GOOD, plan=tags).outcome is Outcome.PASS

    def test_only_workloads_that_run_what_changed_are_stale(self):
        entries = (make_entry_build("scale_f32"), make_entry_build("scale_f16"))
        problems = (make_problem("big"), make_problem("small", entries=("scale_f16",)))
        plan = make_plan(
            (make_check(FINITE, "big"), make_check(FINITE, "small")), descriptions=(make_description(problems=problems),)
        )
        evidence = good_evidence(plan, (make_build(entries=entries),))
        changed = make_build(entries=(entries[0], make_entry_build("scale_f16", digest="new")))
        outcomes = {verdict.target: verdict.outcome for verdict in judged(evidence, plan=plan, builds=(changed,)).verdicts}
        assert outcomes == {"big": Outcome.PASS, "small": Outcome.INCONCLUSIVE}

    def test_the_nearest_of_several_recordings_is_compared(self):
        far = good_evidence(PLAN, (make_build(launcher="x", binding="y", source="z"),))
        near = good_evidence(PLAN, (make_build(launcher="x"),))
        assert only(judged(far, near), "finite").reason.facts == (("changed", "launcher"),)

    def test_no_evidence(self):
        for report in (judged(), judged(make_evidence())):
            assert {verdict.reason.code for verdict in report.verdicts} == {Code.NO_EVIDENCE}
            assert (report.outcome, report.exit_code) == (Outcome.INCONCLUSIVE, 11)
            assert report.headline == "INCONCLUSIVE: 7 of 7 checks block this merge because they could not be judged"

    def test_evidence_of_another_kind_or_target_does_not_count(self):
        plan = make_plan((make_check(FINITE, "big"),))
        other = good_observation(make_plan(), BUILDS[0], Kind.CORRECTNESS, "small")
        verdict = judged(make_evidence(observations=(other,)), plan=plan).verdicts[0]
        assert verdict.reason.code is Code.NO_EVIDENCE

    def test_equal_duplicates_are_one(self):
        evidence = replace(GOOD, observations=GOOD.observations * 2)
        assert judged(evidence).outcome is Outcome.PASS

    @pytest.mark.parametrize("order", [1, -1])
    def test_contradicting_duplicates_hide_nothing(self, order):
        red = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=3.0, unit="count"))
        both = replace(GOOD, observations=(*GOOD.observations, *red.observations)[::order])
        verdict = only(judged(both), "finite")
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)
        assert verdict.blocks

    def test_provenance_is_that_of_the_source_that_answered(self):
        static = make_evidence(provenance=make_provenance(device=None), observations=GOOD.observations[:2])
        report = judged(Source(origin=Origin(kind="live"), evidence=static), Source(origin=RECORDED, evidence=GOOD))
        assert report.outcome is Outcome.PASS
        assert report.provenance == GOOD.provenance
        assert judged(static, plan=make_plan(CHECKS[:2])).provenance == static.provenance
        assert judged().provenance is None

    def test_notes_of_sources_that_answered_are_passed_on(self):
        talking = replace(GOOD, notes=("cannot tell",))
        assert "cannot tell" in judged(talking).notes
        assert f"cannot tell ({RECORDED.detail})" in judged(talking, origin=RECORDED).notes
        assert "cannot tell" not in judged(GOOD, talking).notes


class TestBuilds:
    def test_a_failed_build_fails_its_gate_and_leaves_the_rest_unjudged(self):
        broken = good_static(
            PLAN,
            FAILED_BUILD,
            Kind.BUILD,
            "scale",
            readings=(),
            missing=Missing(code=Code.COMPILE_ERROR, message=COMPILE_ERROR.message),
            findings=(Finding(tool="nvcc", message=COMPILE_ERROR.message, file="kernel/scale_f32.cu", line=12),),
        )
        report = judged(make_evidence(observations=(broken,)), Source(origin=RECORDED, evidence=GOOD), builds=(FAILED_BUILD,))
        build = only(report, "build", "scale")
        assert (build.outcome, build.reason.code, build.findings[0].line) == (Outcome.FAIL, Code.COMPILE_ERROR, 12)
        assert only(report, "finite").reason.code is Code.NOT_BUILT
        assert only(report, "spills", "scale_f32").reason.code is Code.STALE_EVIDENCE
        assert report.exit_code == 10
        assert report.headline == "FAIL: 7 of 7 checks block this merge"

    def test_without_a_build_nothing_is_known(self):
        report = judged(GOOD, builds=())
        assert {verdict.reason.code for verdict in report.verdicts} == {Code.NOT_BUILT}
        assert report.exit_code == 11

    def test_a_workload_that_the_plan_does_not_describe(self):
        for descriptions in ((), (make_description(problems=()),)):
            report = judged(GOOD, plan=make_plan(descriptions=descriptions))
            assert only(report, "finite").reason.code is Code.INVALID_RESULT

    def test_a_subject_without_machine_code_is_judged_on_live_evidence_only(self):
        bare = make_build(entries=(), library="")
        description = make_description(build=None, problems=(make_problem("big", entries=()),))
        plan = make_plan((make_check(FINITE, "big"),), descriptions=(description,))
        evidence = good_evidence(plan, (bare,))
        assert judged(evidence, plan=plan, builds=(bare,)).outcome is Outcome.PASS
        recorded = judged(evidence, plan=plan, builds=(bare,), origin=RECORDED)
        assert recorded.verdicts[0].reason.code is Code.NO_EVIDENCE
        again = judged(evidence, plan=plan, builds=evidence.builds, origin=RECORDED)
        assert again.outcome is Outcome.PASS


class TestDeferring:
    def test_what_a_gpu_could_answer_is_deferred_and_does_not_block(self):
        static = replace(GOOD, observations=GOOD.observations[:2])
        report = judged(static, stale=StalePolicy.DEFER)
        deferred = [verdict for verdict in report.verdicts if verdict.deferred]
        assert len(deferred) == 5
        assert all(verdict.outcome is Outcome.INCONCLUSIVE and not verdict.blocks for verdict in deferred)
        assert (report.outcome, report.exit_code) == (Outcome.PASS, 0)
        assert report.headline == "PASS: 2 of 7 checks passed, 5 deferred to a machine with the GPU"

    def test_stale_evidence_is_deferred_too(self):
        old = good_evidence(PLAN, (make_build(launcher="old"),))
        verdict = only(judged(old, stale=StalePolicy.DEFER), "finite")
        assert (verdict.deferred, verdict.reason.code) == (True, Code.STALE_EVIDENCE)

    def test_static_gates_are_never_deferred(self):
        report = judged(stale=StalePolicy.DEFER)
        assert [verdict.gate for verdict in report.verdicts if verdict.blocks] == ["build", "spills"]
        assert report.exit_code == 11

    @pytest.mark.parametrize("code", [Code.GPU_BUSY, Code.HANG, Code.INTERRUPTED, Code.UNSETTLED])
    def test_what_was_measured_badly_is_not_deferred(self, code):
        bad = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Missing(code=code, message=""))
        verdict = only(judged(bad, stale=StalePolicy.DEFER), "finite")
        assert (verdict.deferred, verdict.blocks) == (False, True)


class TestWaivers:
    RED = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=3.0, unit="count"))

    def test_a_red_check_is_waived_and_says_so(self):
        report = judged(self.RED, waivers=(make_waiver(),))
        verdict = only(report, "finite")
        assert (verdict.outcome, verdict.blocks) == (Outcome.WAIVED, False)
        assert verdict.reason.code is Code.OVER_LIMIT
        assert verdict.notes == ("waived until 2026-12-31 by kernels: known, see the tuning log",)
        assert report.headline == "PASS: 6 of 7 checks passed, 1 waived"
        assert report.waivers == (make_waiver(),)

    def test_an_inconclusive_check_is_waived_too(self):
        report = judged(waivers=tuple(make_waiver(*check.key) for check in CHECKS))
        assert {verdict.outcome for verdict in report.verdicts} == {Outcome.WAIVED}
        assert report.exit_code == 0

    @pytest.mark.parametrize(
        ("as_of", "outcome"),
        [
            ("2026-12-31T23:59:59Z", Outcome.WAIVED),
            ("2026-12-31", Outcome.WAIVED),
            ("2026-12-31T23:59:59", Outcome.WAIVED),
            ("2027-01-01T00:00:00Z", Outcome.FAIL),
            ("2027-01-01T01:00:00+02:00", Outcome.WAIVED),
            ("2026-12-31T23:00:00-02:00", Outcome.FAIL),
        ],
    )
    def test_it_holds_to_the_end_of_its_last_day_in_utc(self, as_of, outcome):
        assert only(judged(self.RED, waivers=(make_waiver(),), as_of=as_of), "finite").outcome is outcome

    def test_a_day_that_is_none_is_refused(self):
        with pytest.raises(ValueError):
            judged(GOOD, as_of="tomorrow")

    @pytest.mark.parametrize(
        ("waiver", "evidence", "note"),
        [
            (make_waiver(expires="2026-11-20"), RED, "the waiver of finite on big ended on 2026-11-20 and does nothing"),
            (make_waiver("finite", "bog"), GOOD, "the waiver of finite on bog matches no check of this plan"),
            (make_waiver(), GOOD, "the waiver of finite on big is not needed: the check passes"),
        ],
    )
    def test_idle_waivers_are_noted(self, waiver, evidence, note):
        assert note in judged(evidence, waivers=(waiver,)).notes

    def test_a_waiver_covers_one_check_and_no_other(self):
        red = with_reading(self.RED, Kind.CORRECTNESS, "small", FINITE.metric, Measured(value=1.0, unit="count"))
        report = judged(red, waivers=(make_waiver(),))
        assert only(report, "finite", "small").outcome is Outcome.FAIL
        assert report.headline == "FAIL: 1 of 7 checks blocks this merge"


class TestTogether:
    def test_fail_wins_over_inconclusive(self):
        bad = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=1.0, unit="count"))
        bad = with_reading(bad, Kind.PROFILE, "big", SOL_DRAM.metric, Missing(code=Code.COUNTERS_DENIED, message=""))
        report = judged(bad)
        assert (report.outcome, report.exit_code) == (Outcome.FAIL, 10)
        assert report.headline == "FAIL: 2 of 7 checks block this merge"

    def test_one_unsure_check(self):
        bad = with_reading(GOOD, Kind.PROFILE, "big", SOL_DRAM.metric, Missing(code=Code.COUNTERS_DENIED, message=""))
        assert judged(bad).headline == "INCONCLUSIVE: 1 of 7 checks blocks this merge because it could not be judged"

    def test_an_empty_plan_is_no_pass(self):
        report = judged(GOOD, plan=make_plan(()))
        assert (report.outcome, report.exit_code) == (Outcome.INCONCLUSIVE, 11)
        assert report.headline == "INCONCLUSIVE: no check was planned"
        assert report.notes[0] == "0 checks (none); 1 combinations do not apply"

    def test_checks_of_two_gates_on_one_subject(self):
        plan = make_plan((make_check(BUILD, "scale"), make_check(MEMCHECK)))
        assert judged(good_evidence(plan), plan=plan).outcome is Outcome.PASS
