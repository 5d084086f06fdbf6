from dataclasses import replace

import pytest
from evidence_factories import good_evidence, with_reading
from factories import (
    FINITE,
    make_build,
    make_check,
    make_description,
    make_entry_build,
    make_plan,
    make_problem,
    make_protocol,
    make_workload,
)
from judging import GOOD, PLAN, judged, only

from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Origin, Outcome, StalePolicy


class TestWhatChanged:
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
        assert verdict.reason.message == f"the evidence is of other code or another question. Changed since: {part}"
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

    def test_tags_do_not_change_the_digest_of_a_workload(self):
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


class TestDeferring:
    def test_missing_gpu_evidence_is_deferred_and_does_not_block(self):
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
    def test_a_failed_measurement_is_not_deferred(self, code):
        bad = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Missing(code=code, message=""))
        verdict = only(judged(bad, stale=StalePolicy.DEFER), "finite")
        assert (verdict.deferred, verdict.blocks) == (False, True)
