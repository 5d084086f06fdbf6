import math
from dataclasses import replace

import pytest
from evidence_factories import good_evidence, good_static, with_reading
from factories import BUILD, FINITE, MEMCHECK, SOL_DRAM, SPILLS, make_check, make_gate, make_limit, make_plan
from judging import BUILDS, GOOD, NOON, PLAN, judged, only, verdict_on_plan_of, verdict_with
from report_factories import LIVE, make_verdict

from flashcore_ci.judge.summary import headline
from flashcore_ci.model.codes import NEXT_STEP, PASSING, SUBJECT_FAILURES, Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind, Rule, Severity
from flashcore_ci.model.verdict import Outcome


class TestGreen:
    def test_good_evidence_passes_everything(self):
        report = judged(GOOD)
        assert {verdict.outcome for verdict in report.verdicts} == {Outcome.PASS}
        assert (report.outcome, report.exit_code) == (Outcome.PASS, 0)
        assert report.headline == "PASS: 7 of 7 checks passed"
        assert not any(verdict.blocks or verdict.next_step for verdict in report.verdicts)

    def test_the_headline_writes_thousands_as_the_lines_below_it_do(self):
        few = make_verdict(outcome=Outcome.FAIL, severity=Severity.ADVISORY, blocks=False)
        many, blocking = (make_verdict(),) * 2_000, (make_verdict(outcome=Outcome.FAIL, blocks=True),) * 1_500
        assert headline((*many, few)) == "PASS: 2,000 of 2,001 checks passed, 1 not passed but advisory"
        assert headline((*many, *(few,) * 1_200)).endswith(", 1,200 not passed but advisory")
        assert headline((*many, *blocking)) == "FAIL: 1,500 of 3,500 checks block this merge"

    def test_the_report_names_what_was_judged(self):
        report = judged(GOOD)
        assert (report.suite, report.tool, report.as_of) == ("tiny", "test", NOON)
        assert (report.excluded, report.builds, report.provenance) == (PLAN.excluded, BUILDS, GOOD.provenance)
        assert report.notes == ("7 checks (subjects: 1, entry functions: 1, workloads: 2); 1 combinations do not apply",)

    def test_a_verdict_carries_its_gate(self):
        verdict = only(judged(GOOD), "sol-dram")
        assert (verdict.limit, verdict.unit, verdict.rule) == (85.0, "%", Rule.AT_LEAST)
        assert (verdict.title, verdict.why, verdict.subject) == ("the gate sol-dram", "because", "scale")
        assert verdict.reading == Measured(value=91.5, unit="%")
        assert (verdict.reason.code, verdict.reason.message) == (Code.WITHIN_LIMIT, "91.5 % is at least 85 %")
        assert verdict.reason.facts == (("sol/sm", "12 %"),)
        assert verdict.origin == LIVE

    def test_the_reason_of_a_limit_is_shown_before_that_of_the_gate(self):
        check = make_check(replace(FINITE, limits=(make_limit(why="this one is special"),)))
        assert verdict_with(check).why == "this one is special"

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
        verdict = verdict_with(check, readings=(("finite/bad-values", Measured(value=value, unit="count")),))
        assert verdict.reason.code is code
        assert verdict.outcome is (Outcome.PASS if code is Code.WITHIN_LIMIT else Outcome.FAIL)
        assert verdict.blocks is (code is not Code.WITHIN_LIMIT)
        assert verdict.next_step == NEXT_STEP.get(code, "")

    @pytest.mark.parametrize(
        ("percent", "outcome"), [(109.0, Outcome.PASS), (111.0, Outcome.INCONCLUSIVE), (1e9, Outcome.INCONCLUSIVE)]
    )
    def test_a_share_far_above_the_peak_is_invalid(self, percent, outcome):
        assert verdict_with(make_check(SOL_DRAM), readings=(("sol/dram", Measured(value=percent, unit="%")),)).outcome is outcome

    @pytest.mark.parametrize("rule", list(Rule))
    def test_nan_never_passes(self, rule):
        broken = Measured(value=0.0, unit="count")
        object.__setattr__(broken, "value", math.nan)
        check = make_check(replace(FINITE, rule=rule))
        assert verdict_with(check, readings=(("finite/bad-values", broken),)).outcome is Outcome.FAIL

    @pytest.mark.parametrize("code", sorted(set(Code) - PASSING))
    def test_a_missing_number_never_passes(self, code):
        missing = Missing(code=code, message="why not")
        for changes in ({"readings": (("finite/bad-values", missing),)}, {"missing": missing}):
            verdict = verdict_with(make_check(FINITE), **changes)
            assert verdict.outcome is (Outcome.FAIL if code in SUBJECT_FAILURES else Outcome.INCONCLUSIVE)
            assert verdict.blocks
            assert verdict.reading == missing
            assert (verdict.reason.code, verdict.reason.message) == (code, "why not")
            assert verdict.next_step

    def test_a_metric_that_is_not_there(self):
        verdict = verdict_with(make_check(FINITE), readings=())
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.METRIC_ABSENT)

    def test_another_unit_is_not_compared(self):
        verdict = verdict_with(make_check(FINITE), readings=(("finite/bad-values", Measured(value=0.0, unit="%")),))
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.UNIT_MISMATCH)
        assert verdict.reason.message == "the reading is 0 %, but the limit is 0 count"

    @pytest.mark.parametrize("rule", [Rule.LESS, Rule.AT_MOST, Rule.EQUAL])
    def test_a_sentinel_below_zero_is_invalid(self, rule):
        check = make_check(replace(FINITE, rule=rule, limits=(make_limit(-1.0 if rule is Rule.EQUAL else 1.0),)))
        verdict = verdict_with(check, readings=(("finite/bad-values", Measured(value=-1.0, unit="count")),))
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

    def test_an_advisory_gate_fails_and_does_not_block(self):
        check = make_check(replace(FINITE, limits=(make_limit(severity=Severity.ADVISORY),)))
        plan = make_plan((check,))
        evidence = with_reading(good_evidence(plan), Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=1.0, unit="count"))
        report = judged(evidence, plan=plan)
        verdict = report.verdicts[0]
        assert (verdict.outcome, verdict.blocks, report.exit_code) == (Outcome.FAIL, False, 0)
        assert report.headline == "PASS: 0 of 1 checks passed, 1 not passed but advisory"


class TestFindingsNotesAndFacts:
    def test_one_sanitizer_does_not_show_the_findings_of_another(self):
        findings = (Finding(tool="memcheck", message="a"), Finding(tool="racecheck", message="b"))
        verdict = verdict_with(make_check(MEMCHECK), findings=findings)
        assert verdict.findings == findings[:1]
        assert verdict.reason.facts == (("memcheck/launches", "2 count"),)

    def test_facts_say_why_a_neighbour_is_missing(self):
        missing = Missing(code=Code.TOOL_FAILED, message="it failed")
        readings = (("memcheck/findings", missing), ("memcheck/launches", missing))
        assert verdict_with(make_check(MEMCHECK), readings=readings).reason.facts == (("memcheck/launches", "none: it failed"),)

    def test_other_findings_are_all_shown(self):
        findings = (Finding(tool="anything", message="a"),)
        assert verdict_with(make_check(FINITE), findings=findings).findings == findings

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
        assert verdict_on_plan_of(check, observation).notes == notes

    def test_other_notes_are_always_shown(self):
        assert verdict_with(make_check(FINITE), notes=("seen on GPU 3",)).notes == ("seen on GPU 3",)


class TestTogether:
    def test_fail_wins_over_inconclusive(self):
        bad = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=1.0, unit="count"))
        bad = with_reading(bad, Kind.PROFILE, "big", SOL_DRAM.metric, Missing(code=Code.COUNTERS_DENIED, message=""))
        report = judged(bad)
        assert (report.outcome, report.exit_code) == (Outcome.FAIL, 10)
        assert report.headline == "FAIL: 2 of 7 checks block this merge"

    def test_one_inconclusive_check(self):
        bad = with_reading(GOOD, Kind.PROFILE, "big", SOL_DRAM.metric, Missing(code=Code.COUNTERS_DENIED, message=""))
        assert judged(bad).headline == "INCONCLUSIVE: 1 of 7 checks blocks this merge because it could not be judged"

    def test_an_empty_plan_does_not_pass(self):
        report = judged(GOOD, plan=make_plan(()))
        assert (report.outcome, report.exit_code) == (Outcome.INCONCLUSIVE, 11)
        assert report.headline == "INCONCLUSIVE: no check was planned"
        assert report.notes[0] == "0 checks (none); 1 combinations do not apply"

    def test_checks_of_two_gates_on_one_subject(self):
        plan = make_plan((make_check(BUILD, "scale"), make_check(MEMCHECK)))
        assert judged(good_evidence(plan), plan=plan).outcome is Outcome.PASS
