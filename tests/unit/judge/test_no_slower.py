"""The gate ``no-slower`` on whole observations: invalid evidence, messages and facts."""

import math
from dataclasses import replace

import pytest
from comparing import (
    BASE,
    BUILD,
    CHECK,
    COMPUTE,
    NO_DRIFT,
    NO_SLOWER,
    comparison,
    context,
    lognormal,
    make_noise,
    plan_of,
    rounds,
    samples_of,
    verdict_on,
)
from evidence_factories import make_evidence
from factories import make_check, make_limit
from judging import judged
from report_factories import LIVE, RECORDED

from flashcore_ci.judge import no_slower
from flashcore_ci.judge.judge import Source, workloads_without_base
from flashcore_ci.judge.references import References
from flashcore_ci.model.codes import Code
from flashcore_ci.model.identity import NO_MACHINE_CODE
from flashcore_ci.model.reading import Measured, Missing, Samples
from flashcore_ci.model.suite import Roof
from flashcore_ci.model.verdict import Outcome

QUIET = References(noises=(make_noise(0.1),))


def facts(verdict):
    return dict(verdict.reason.facts)


@pytest.mark.parametrize(
    ("percent", "outcome", "code"),
    [
        (0.0, Outcome.PASS, Code.SAME),
        (-2.0, Outcome.PASS, Code.FASTER),
        (2.0, Outcome.FAIL, Code.SLOWER),
        (0.3, Outcome.INCONCLUSIVE, Code.UNDECIDED),
    ],
)
def test_outcomes(percent, outcome, code):
    verdict = verdict_on(comparison(rounds(percent)), references=QUIET)
    assert (verdict.outcome, verdict.reason.code) == (outcome, code)
    assert verdict.reading.value == pytest.approx(percent, abs=0.1)
    assert verdict.blocks is (outcome is not Outcome.PASS)
    assert "after 8 rounds (confidence bounds" in verdict.reason.message


def test_facts_of_a_comparison():
    observation = comparison(rounds(2.0))
    observation = replace(observation, readings=(("blocks/dropped", Measured(value=3.0, unit="count")),))
    said = facts(verdict_on(observation, references=QUIET))
    assert said["rounds"] == "8"
    assert said["blocks/dropped"] == "3 count"
    assert said["base/clock/sm"] == said["head/clock/sm"] == "1700 to 1700 MHz"
    assert said["slowdown/cycles"].startswith("+2.0")
    assert "today" in said["noise/cycles"]
    assert said["errors"].endswith("rows that share alpha: 1")
    assert said["pair"] == no_slower.pair_of(observation.base, observation.identity)
    assert said["margin that holds"].endswith("%")


def test_a_memory_bound_kernel_is_judged_in_time():
    clocks = {"mhz": 1700.0, "head_mhz": 1600.0}  # the same cycles at a lower clock: 6 % more time
    assert verdict_on(comparison(rounds(0.0, **clocks)), references=QUIET).reason.code is Code.SLOWER_AT_LOWER_CLOCK
    memory = replace(COMPUTE, roof=Roof.MEMORY)
    verdict = verdict_on(comparison(rounds(0.0, **clocks), plan=plan_of(workload=memory)), workload=memory)
    assert verdict.reason.code is Code.SLOWER
    assert "in time after 8 rounds" in verdict.reason.message


def test_slower_at_a_lower_clock_names_both_scales():
    verdict = verdict_on(comparison(rounds(0.0, mhz=1700.0, head_mhz=1600.0)), references=QUIET)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reading.value == pytest.approx(6.25, abs=0.2)
    assert "in time" in verdict.reason.message
    assert "in cycles" in verdict.reason.message
    assert facts(verdict)["head/clock/sm"] == "1600 to 1600 MHz"


class TestTheSameCode:
    def test_needs_no_timing(self):
        verdict = verdict_on(comparison((), base=BUILD, readings=(("comparison/same-code", Measured(value=1.0, unit="count")),)))
        assert (verdict.outcome, verdict.reason.code) == (Outcome.PASS, Code.SAME_CODE)

    def test_is_decided_by_digests_and_not_by_the_collector(self):
        said = (("comparison/same-code", Measured(value=1.0, unit="count")),)
        verdict = verdict_on(comparison((), readings=said))
        assert verdict.outcome is Outcome.INCONCLUSIVE

    def test_needs_a_collector_that_compared_the_builds(self):
        assert verdict_on(comparison((), base=BUILD)).outcome is Outcome.INCONCLUSIVE

    def test_is_judged_by_its_samples_if_it_was_timed(self):
        said = (("comparison/same-code", Measured(value=1.0, unit="count")),)
        for readings in ((), said):
            verdict = verdict_on(comparison(rounds(2.0), base=BUILD, readings=readings))
            assert (verdict.outcome, verdict.reason.code) == (Outcome.FAIL, Code.SLOWER)
            assert "the compiled host code differs" in facts(verdict)["code"]


class TestCodeThatNoDigestCovers:
    """A subject without a build: equal identities prove nothing."""

    def uncovered(self, observation, **base):
        jit = replace(observation.identity, machine_code=NO_MACHINE_CODE, launcher="", binding="")
        return replace(observation, identity=jit, base=replace(jit, **base))

    @pytest.mark.parametrize("base", [{}, {"subject": "the base's own file"}])
    def test_is_judged_by_its_samples(self, base):
        answered = no_slower.evaluate(CHECK, self.uncovered(comparison(rounds(2.0)), **base), context())
        assert (answered.outcome, answered.reason.code) == (Outcome.FAIL, Code.SLOWER)
        assert "no digest covers it" in dict(answered.reason.facts)["code"]

    def test_is_never_the_same_code(self):
        answered = no_slower.evaluate(CHECK, self.uncovered(comparison(())), context())
        assert answered.outcome is Outcome.INCONCLUSIVE

    def test_has_no_pair_that_a_waiver_could_name(self):
        answered = no_slower.evaluate(CHECK, self.uncovered(comparison(rounds(2.0))), context())
        assert "pair" not in dict(answered.reason.facts)
        assert not any("to accept it" in note for note in answered.notes)

    def test_is_still_refused_for_another_workload(self):
        answered = no_slower.evaluate(CHECK, self.uncovered(comparison(rounds()), workload="other"), context())
        assert answered.reason.code is Code.INVALID_RESULT


class TestRefused:
    def test_a_comparison_without_a_base(self):
        observation = replace(comparison(rounds()), base=None)
        assert verdict_on(observation).reason.code is Code.INVALID_RESULT

    @pytest.mark.parametrize("part", ["subject", "workload", "collector"])
    def test_a_base_of_another_question(self, part):
        observation = comparison(rounds())
        observation = replace(observation, base=replace(observation.base, **{part: "other"}))
        assert verdict_on(observation).reason.code is Code.INVALID_RESULT

    def test_too_few_rounds(self):
        verdict = verdict_on(comparison(rounds(count=4)))
        assert verdict.reason.code is Code.TOO_FEW_PROCESSES
        assert verdict.reason.message == "4 rounds were completed, 5 are needed"

    @pytest.mark.parametrize("bad", [0.0, -1.0])
    def test_impossible_values(self, bad):
        verdict = verdict_on(comparison(samples_of((1.0, 1.01, 1.02, 1.0, bad), lognormal(1, 5))))
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

    def test_values_without_scatter(self):
        verdict = verdict_on(comparison(samples_of((1.0,) * 8, (1.0,) * 8)), references=QUIET)
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

    def test_sides_of_different_length(self):
        verdict = verdict_on(comparison(samples_of(lognormal(1, 8), lognormal(2, 7))))
        assert verdict.reason.code is Code.INVALID_RESULT

    def test_scales_of_different_length(self):
        samples = tuple((n, replace(s, values=s.values[:-1]) if "time" in n else s) for n, s in rounds())
        assert verdict_on(comparison(samples)).reason.code is Code.INVALID_RESULT

    @pytest.mark.parametrize("lost", ["head/cycles/gpu/cold", "base/time/gpu/cold"])
    def test_a_missing_scale(self, lost):
        verdict = verdict_on(comparison(tuple(pair for pair in rounds() if pair[0] != lost)))
        assert verdict.reason.code is Code.INVALID_RESULT
        assert lost in verdict.reason.message

    def test_a_scale_in_another_unit(self):
        wrong = {"head/cycles/gpu/cold": Samples(values=lognormal(3, 8), unit="cycle")}
        verdict = verdict_on(comparison(tuple(({**dict(rounds()), **wrong}).items())))
        assert verdict.reason.code is Code.INVALID_RESULT

    def test_a_failed_measurement(self):
        verdict = verdict_on(comparison((), missing=Missing(code=Code.THROTTLED, message="hot")))
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.THROTTLED)


class TestBases:
    def test_a_failure_of_the_base_counts_for_these_digests_only(self):
        lost = comparison((), missing=Missing(code=Code.NO_BASE, message="the base cannot run it: raised"))

        def said(*observations, base=None):
            source = Source(origin=LIVE, evidence=make_evidence(observations=observations))
            return workloads_without_base(plan_of(), (BUILD,), (source,), base)

        assert said(lost) == {"big": "the base cannot run it: raised"}
        assert said(lost, base={"big": lost.base}) == said(lost)
        assert said(lost, base={"big": replace(lost.base, launcher="another")}) == {}
        assert said(replace(lost, identity=replace(lost.identity, machine_code="another"))) == {}
        assert said(replace(lost, base=None)) == {}
        assert said(comparison(rounds())) == {}

    def test_one_recording_with_a_comparison_is_enough(self):
        lost = comparison((), missing=Missing(code=Code.NO_BASE, message="the base cannot run it: raised"))
        sources = tuple(
            Source(origin=RECORDED, evidence=make_evidence(observations=(one,))) for one in (lost, comparison(rounds()))
        )
        assert workloads_without_base(plan_of(), (BUILD,), sources) == {}

    def test_rows_are_those_of_one_statistic(self):
        plan = plan_of(CHECK, make_check(NO_DRIFT))
        facts = dict(
            judged(make_evidence(observations=(comparison(rounds(2.0), plan=plan),)), plan=plan).verdicts[0].reason.facts
        )
        assert facts["errors"].endswith("alpha: 1")

    @pytest.mark.parametrize("changes", [{"clock_policy": "locked at 1500 MHz"}, {"device": "NVIDIA H100"}])
    def test_noise_of_another_machine_or_clock_policy_is_not_used(self, changes):
        observation = comparison(rounds())
        facts = dict(verdict_on(observation, references=References(noises=(make_noise(0.1, **changes),))).reason.facts)
        assert facts["noise/cycles"].endswith("no recording on such a machine")
        used = dict(verdict_on(observation, references=References(noises=(make_noise(0.1),))).reason.facts)
        assert "recording" in used["noise/cycles"]
        assert not used["noise/cycles"].endswith("no recording on such a machine")

    def test_equal_code_takes_no_share_of_alpha(self):
        twin = replace(COMPUTE, id="twin")
        plan = replace(plan_of(CHECK, replace(CHECK, target="twin")), workloads=(COMPUTE, twin))
        problem = plan.descriptions[0].problem("big")
        described = replace(plan.descriptions[0], problems=(problem, replace(problem, workload="twin")))
        plan = replace(plan, descriptions=(described,))
        other = comparison(rounds(2.0), plan=plan)
        for base, rows in ((BUILD, "alpha: 1"), (BASE, "alpha: 2")):
            said = (("comparison/same-code", Measured(value=1.0, unit="count")),) if base is BUILD else ()
            second = comparison(() if said else rounds(2.0), plan=plan, base=base, readings=said)
            both = make_evidence(observations=(other, replace(second, target="twin")))
            facts = dict(judged(both, plan=plan).verdicts[0].reason.facts)
            assert facts["errors"].endswith(rows)

    def test_a_comparison_with_another_base_is_stale(self):
        evidence = make_evidence(observations=(comparison(rounds()),))
        right = comparison(rounds()).base
        verdict = judged(evidence, plan=plan_of(), base={"big": replace(right, launcher="another")}).verdicts[0]
        assert verdict.reason.code is Code.STALE_EVIDENCE
        assert verdict.reason.message.endswith("Changed since: the base")
        assert judged(evidence, plan=plan_of(), base={"big": right}).verdicts[0].reason.code is Code.SAME

    def test_a_recording_is_judged_with_its_own_base(self):
        evidence = make_evidence(observations=(comparison(rounds(2.0)),))
        assert judged(evidence, plan=plan_of(), origin=RECORDED).verdicts[0].reason.code is Code.SLOWER


class TestNoise:
    def test_a_recording_of_another_product_is_not_used(self):
        other = References(noises=(make_noise(0.1, device="NVIDIA H100"),))
        said = facts(verdict_on(comparison(rounds()), references=other))
        assert "no recording on such a machine" in said["noise/cycles"]

    def test_noise_above_the_recording_is_reported(self):
        verdict = verdict_on(comparison(rounds(noise=1.0)), references=QUIET)
        said = facts(verdict)
        assert "times as much as recorded" in verdict.reason.message
        assert "significantly more, so the recording is not used" in said["noise/cycles"]

    def test_a_margin_that_is_too_narrow_names_a_resolvable_one(self):
        loud = References(noises=(make_noise(1.0),))
        verdict = verdict_on(comparison(rounds(0.0, count=12, noise=1.0)), references=loud)
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.BELOW_RESOLUTION)
        holds = float(facts(verdict)["margin that holds"].removesuffix(" %"))
        wider = make_check(replace(NO_SLOWER, limits=(make_limit(holds, "%"),)))
        assert verdict_on(comparison(rounds(0.0, count=12, noise=1.0)), check=wider, references=loud).outcome is Outcome.PASS


class TestInterimLooks:
    @pytest.mark.parametrize("count", [5, 8, 12])
    @pytest.mark.parametrize("percent", [0.0, 0.3, 0.45, 2.0, -2.0])
    def test_the_collector_stops_when_the_verdict_is_final(self, percent, count):
        samples = rounds(percent, count=count)
        verdict = verdict_on(comparison(samples), references=QUIET)
        final = no_slower.is_final(CHECK, dict(samples), context(make_noise(0.1)))
        assert final is (verdict.reason.code in {Code.FASTER, Code.SAME, Code.SLOWER})

    def test_the_collector_continues_without_a_decision(self):
        assert not no_slower.is_final(CHECK, dict(rounds(count=4)), context())
        assert not no_slower.is_final(CHECK, {}, context())

    def test_more_rows_need_more_rounds(self):
        samples = rounds(0.62, count=8)
        verdicts = {
            rows: no_slower.decide_check(CHECK, dict(samples), context(make_noise(0.1), rows=rows)).code for rows in (1, 10_000)
        }
        assert verdicts == {1: Code.SLOWER, 10_000: Code.UNDECIDED}


def test_rounding_up():
    assert [no_slower._round_up(value) for value in (0.8401, 0.84, 12.01, 0.0)] == ["0.85", "0.84", "13", "0"]
    assert math.isfinite(float(no_slower._round_up(3.14159)))
