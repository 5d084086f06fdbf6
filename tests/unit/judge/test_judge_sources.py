from dataclasses import replace

import pytest
from evidence_factories import good_evidence, good_observation, good_static, make_evidence, make_provenance, with_reading
from factories import (
    CHECKS,
    COMPILE_ERROR,
    FAILED_BUILD,
    FINITE,
    make_build,
    make_check,
    make_description,
    make_plan,
    make_problem,
)
from judging import BUILDS, GOOD, PLAN, RED, judged, only
from report_factories import LIVE, RECORDED

from flashcore_ci.judge.judge import Source
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Origin, Outcome


class TestMatching:
    def test_the_first_source_that_matches_answers(self):
        sources = [Source(origin=RECORDED, evidence=RED), Source(origin=LIVE, evidence=GOOD)]
        verdict = only(judged(*sources), "finite")
        assert (verdict.outcome, verdict.origin) == (Outcome.FAIL, RECORDED)
        verdict = only(judged(*reversed(sources)), "finite")
        assert (verdict.outcome, verdict.origin) == (Outcome.PASS, LIVE)

    @pytest.mark.parametrize("order", [1, -1])
    def test_a_red_recording_cannot_be_hidden_behind_a_green_one(self, order):
        sources = [Source(origin=RECORDED, evidence=evidence) for evidence in (GOOD, RED)][::order]
        assert only(judged(*sources), "finite").outcome is Outcome.FAIL
        assert only(judged(*sources), "finite", "small").outcome is Outcome.PASS

    def test_a_source_of_other_code_is_skipped(self):
        stale = good_evidence(PLAN, (make_build(launcher="other"),))
        report = judged(Source(origin=LIVE, evidence=stale), Source(origin=RECORDED, evidence=GOOD))
        assert report.outcome is Outcome.PASS
        assert {verdict.origin for verdict in report.verdicts} == {RECORDED}

    def test_a_matching_missing_reading_counts(self):
        busy = Missing(code=Code.GPU_BUSY, message="busy")
        live = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, busy)
        verdict = only(judged(Source(origin=LIVE, evidence=live), Source(origin=RECORDED, evidence=GOOD)), "finite")
        assert verdict.reason.code is Code.GPU_BUSY

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
        both = replace(GOOD, observations=(*GOOD.observations, *RED.observations)[::order])
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
