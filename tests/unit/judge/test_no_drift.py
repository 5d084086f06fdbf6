"""The gate ``no-drift``: a fixed baseline catches slow drift."""

from dataclasses import replace

import pytest
from comparing import CHECK, COMPUTE, NO_DRIFT, NO_SLOWER, comparison, lognormal, make_noise, plan_of, samples_of, verdict_on
from evidence_factories import good_observation, make_evidence, make_provenance
from factories import make_build, make_check, make_limit
from judging import judged
from report_factories import LIVE

from flashcore_ci.judge.references import References
from flashcore_ci.model.baseline import Baseline, BaselineRow, propose
from flashcore_ci.model.codes import Code
from flashcore_ci.model.identity import GRAPH_LAUNCHES
from flashcore_ci.model.reading import Measured, Missing, Samples
from flashcore_ci.model.suite import Accepts, Kind, Roof, VersionRange
from flashcore_ci.model.verdict import Origin, Outcome

DRIFT = make_check(NO_DRIFT)
PLAN = plan_of(DRIFT)


def timing(percent=0.0, count=5, seed=1, time_percent=None, **changes):
    cycles = lognormal(seed, count, percent=percent)
    ms = lognormal(seed + 50, count, percent=percent if time_percent is None else time_percent)
    samples = (("time/gpu/cold", Samples(values=ms, unit="ms")), ("cycles/gpu/cold", Samples(values=cycles, unit="Mcycle")))
    return good_observation(PLAN, make_build(), Kind.TIMING, "big", **{"samples": samples, **changes})


def baseline(observation=None, collected_at="2026-11-01T00:00:00Z", **changes):
    observation = observation or timing(seed=77)
    samples = dict(observation.samples)
    row = BaselineRow(
        workload="big",
        collected_at=collected_at,
        commit="f" * 40,
        asked=observation.identity.workload,
        collector=observation.identity.collector,
        ms=samples["time/gpu/cold"].values,
        megacycles=samples["cycles/gpu/cold"].values,
    )
    fields = {
        "device": "NVIDIA H200",
        "driver": "580.159.04",
        "clock_policy": "not locked",
        "rows": (row,),
    }
    return Baseline(**{**fields, **changes})


def verdict(observation, *baselines, check=DRIFT, workload=COMPUTE, noise=None, **provenance):
    evidence = make_evidence(observations=(observation,), provenance=make_provenance(**provenance))
    references = References(baselines=baselines, noises=(noise,) if noise else ())
    return judged(evidence, plan=plan_of(check, workload=workload), references=references).verdicts[0]


@pytest.mark.parametrize(
    ("percent", "outcome", "code"),
    [
        (0.0, Outcome.PASS, Code.SAME),
        (1.0, Outcome.PASS, Code.SAME),
        (-9.0, Outcome.PASS, Code.FASTER),
        (2.0, Outcome.INCONCLUSIVE, Code.UNDECIDED),
        (4.0, Outcome.FAIL, Code.DRIFTED),
    ],
)
def test_outcomes(percent, outcome, code):
    found = verdict(timing(percent), baseline())
    assert (found.outcome, found.reason.code) == (outcome, code)
    assert found.reading.value == pytest.approx(percent, abs=0.2)
    assert "compared with the baseline of 2026-11-01" in found.reason.message
    assert dict(found.reason.facts)["processes"] == "5 in the baseline, 5 now"


def test_ten_merges_within_the_margin_fail_together():
    """Each merge costs 0.4 %, within the margin of 0.6 %. The baseline stays."""
    margin = make_check(replace(NO_SLOWER, limits=(make_limit(0.6, "%"),)))
    held, noise = baseline(), References(noises=(make_noise(0.1),))
    merged, drifts = [], []
    for merge in range(1, 11):
        before, after = (100.0 * (1.004**count - 1.0) for count in (merge - 1, merge))
        sides = samples_of(lognormal(merge, 12, percent=before), lognormal(merge + 500, 12, percent=after))
        merged.append(verdict_on(comparison(sides), check=margin, references=noise).outcome)
        drifts.append(verdict(timing(after, seed=merge), held, noise=make_noise(0.1)).outcome)
    assert merged == [Outcome.PASS] * 10
    assert drifts[:3] == [Outcome.PASS] * 3
    assert drifts[-1] is Outcome.FAIL


def test_a_memory_bound_workload_drifts_in_time():
    memory = replace(COMPUTE, roof=Roof.MEMORY)
    observation = timing(0.0, time_percent=5.0)
    assert verdict(observation, baseline()).reason.code is Code.SAME
    assert verdict(observation, baseline(), workload=memory).reason.code is Code.DRIFTED


class TestNoBaseline:
    def test_none_at_all(self):
        found = verdict(timing())
        assert (found.outcome, found.reason.code) == (Outcome.INCONCLUSIVE, Code.NO_BASELINE)
        assert found.blocks
        assert "baseline propose" in found.next_step
        assert found.reason.message.endswith("The checkout has none")

    @pytest.mark.parametrize("changes", [{"device": "NVIDIA H100"}, {"driver": "570"}, {"clock_policy": "locked"}])
    def test_baseline_of_another_machine(self, changes):
        found = verdict(timing(), baseline(**changes))
        assert found.reason.code is Code.NO_BASELINE
        assert next(iter(changes.values())) in found.reason.message

    def test_run_without_a_gpu(self):
        assert verdict(timing(), baseline(), device=None).reason.code is Code.NO_BASELINE

    def test_baseline_without_this_workload(self):
        found = verdict(timing(), baseline(rows=()))
        assert (found.reason.code, "has no row for big" in found.reason.message) == (Code.NO_BASELINE, True)

    @pytest.mark.parametrize(("part", "word"), [("workload", "the workload"), ("collector", "the way of timing it")])
    def test_baseline_of_another_workload_or_collector(self, part, word):
        other = timing()
        other = replace(other, identity=replace(other.identity, **{part: "other"}))
        found = verdict(timing(), baseline(other))
        assert found.reason.code is Code.NO_BASELINE
        assert f"{word} has changed" in found.reason.message

    @pytest.mark.parametrize("slope_before", [False, True])
    def test_the_time_of_one_graph_is_not_compared_with_a_slope(self, slope_before):
        """The slope lacks the start of the graph: 7 % of a kernel of 3 µs. A slowdown by as much would pass."""
        slope = timing(readings=((GRAPH_LAUNCHES, Measured(value=41.0, unit="count")),))
        before, now = (slope, timing()) if slope_before else (timing(), slope)
        assert verdict(now, proposed(before)).reason.code is Code.NO_BASELINE
        assert verdict(now, proposed(now)).outcome is Outcome.PASS


def proposed(observation):
    """Return the baseline that `baseline propose` makes of a run."""
    return propose(make_evidence(observations=(observation,), provenance=make_provenance()), None)


class TestRefused:
    def test_too_few_processes(self):
        assert verdict(timing(count=2), baseline()).reason.code is Code.TOO_FEW_PROCESSES

    def test_no_samples(self):
        assert verdict(timing(samples=()), baseline()).reason.code is Code.METRIC_ABSENT

    def test_samples_in_another_unit(self):
        samples = (("cycles/gpu/cold", Samples(values=lognormal(1, 5), unit="cycle")),)
        assert verdict(timing(samples=samples), baseline()).reason.code is Code.METRIC_ABSENT

    @pytest.mark.parametrize("bad", [0.0, -1.0])
    def test_impossible_values(self, bad):
        samples = (("cycles/gpu/cold", Samples(values=(1.0, bad, 1.1), unit="Mcycle")),)
        found = verdict(timing(samples=samples), baseline())
        assert (found.outcome, found.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

    def test_a_failed_measurement(self):
        found = verdict(timing(missing=Missing(code=Code.HANG, message="hung")), baseline())
        assert (found.outcome, found.reason.code) == (Outcome.FAIL, Code.HANG)

    @pytest.mark.parametrize("values", [(1.0,), (1.0, 0.0), (1.0, float("nan")), (1.0, float("inf"))])
    def test_a_baseline_with_impossible_values(self, values):
        with pytest.raises(ValueError, match="big"):
            BaselineRow(workload="big", collected_at="", commit="", asked="", collector="", ms=values, megacycles=values)


def test_a_baseline_from_the_same_run_is_noted():
    same = make_provenance().collected_at
    assert "proposed from this very run" in dict(verdict(timing(), baseline(collected_at=same)).reason.facts)["note"]


def test_the_two_gates_are_different_questions():
    assert CHECK.gate.evidence is not DRIFT.gate.evidence


CLASS = {"machine_class": "NVIDIA H200, sm_90, 132 multiprocessors"}
RECORDED = Origin(kind="recorded", detail="a recording")
ACCEPTED = Accepts(devices=("NVIDIA H200",), driver=VersionRange(first="1", below="999"), tools=(), max_age_days=7)


class TestFirstRun:
    """A machine class without a baseline does not start red. Whoever could choose the class is not believed."""

    def test_a_live_run_does_not_block_and_says_how_to_propose_a_baseline(self):
        report = first_run()
        found = report.verdicts[0]
        assert (found.outcome, found.reason.code, found.blocks) == (Outcome.INCONCLUSIVE, Code.FIRST_RUN, False)
        assert "flashcore-ci baseline propose RUN" in found.next_step
        assert any("1 checks apply once this kind of machine has a baseline" in note for note in report.notes)
        assert (report.outcome, report.exit_code) == (Outcome.PASS, 0)

    def test_a_recording_counts_if_the_suite_accepts_the_device_by_name(self):
        assert blocks(first_run(origin=RECORDED))
        assert not blocks(first_run(origin=RECORDED, accepts=ACCEPTED))
        assert blocks(first_run(origin=RECORDED, accepts=replace(ACCEPTED, devices=("NVIDIA H100",))))

    @pytest.mark.parametrize("changes", [{"driver": "570"}, {"clock_policy": "locked"}, {"device": "nvidia-h200"}, {"rows": ()}])
    def test_any_baseline_of_the_product_ends_it(self, changes):
        report = first_run(baseline(**changes))
        assert (report.verdicts[0].reason.code, blocks(report)) == (Code.NO_BASELINE, True)

    @pytest.mark.parametrize("changes", [{"multiprocessors": 66}, {"compute_capability": "8.0"}, {"name": "NVIDIA H200 NVL"}])
    def test_a_device_that_is_not_what_it_says_ends_it(self, changes):
        assert blocks(first_run(device=replace(make_provenance().device, **changes)))

    def test_evidence_cannot_say_so_itself(self):
        missing = Missing(code=Code.FIRST_RUN, message="no baseline yet")
        report = first_run(observation=timing(missing=missing, samples=()))
        assert (report.verdicts[0].reason.code, blocks(report)) == (Code.FIRST_RUN, True)


def first_run(*baselines, observation=None, origin=LIVE, accepts=None, device=None):
    provenance = make_provenance(**CLASS, **({"device": device} if device else {}))
    evidence = make_evidence(observations=(observation or timing(),), provenance=provenance)
    return judged(evidence, plan=replace(PLAN, accepts=accepts), origin=origin, references=References(baselines=baselines))


def blocks(report):
    return report.verdicts[0].blocks
