import math
from dataclasses import replace

import pytest
from evidence_factories import good_observation, make_evidence
from factories import STABILITY, make_check, make_plan
from judging import BUILDS, judged, verdict_with

from flashcore_ci.model.codes import Code
from flashcore_ci.model.metrics import SCATTER
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Roof
from flashcore_ci.model.verdict import Outcome


class TestStability:
    CHECK = make_check(STABILITY)

    def verdict(self, *values, unit="Mcycle", more=()):
        return verdict_with(self.CHECK, samples=(("cycles/gpu/cold", Samples(values=values, unit=unit)), *more))

    def test_a_spread_below_its_limit(self):
        verdict = self.verdict(99.0, 100.0, 101.0, 100.0, 100.0)
        assert verdict.outcome is Outcome.PASS
        assert verdict.reading.value == pytest.approx(math.sqrt(0.5))
        assert verdict.reading.unit == "%"

    @pytest.mark.parametrize("value", [0.0, 1.0, 1e300])
    def test_equal_values_are_invalid(self, value):
        verdict = self.verdict(*(value,) * 5)
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

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
            ("sees", "5 processes detect a true spread of 4.7 % with 95 % power"),
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

    def test_one_sample_has_no_spread(self):
        check = make_check(replace(STABILITY, min_samples=1))
        verdict = verdict_with(check, samples=(("cycles/gpu/cold", Samples(values=(1.0,), unit="Mcycle")),))
        assert verdict.reason.code is Code.TOO_FEW_PROCESSES

    def test_no_samples_at_all(self):
        assert verdict_with(self.CHECK, samples=()).reason.code is Code.METRIC_ABSENT

    @pytest.mark.parametrize("values", [(0.0,) * 5, (-1.0,) * 5, (1e308,) * 5])
    def test_what_has_no_relative_spread(self, values):
        verdict = self.verdict(*values)
        assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.INVALID_RESULT)

    def test_two_speeds_are_noted(self):
        verdict = self.verdict(100.0, 100.1, 103.0, 103.1, 103.0)
        assert verdict.outcome is Outcome.PASS
        assert verdict.notes == ("two speeds: 3 near 103.033 Mcycle, 2 near 100.05 Mcycle",)

    def test_a_memory_bound_row_is_judged_in_time_if_the_gate_asks_for_its_own_scale(self):
        check = make_check(replace(STABILITY, metric=SCATTER))
        steady, droop = (0.5061, 0.5069, 0.5122, 0.5072, 0.5100), (0.8472, 0.8745, 0.7560, 0.8719, 0.7467)
        for time, cycles, outcome in ((steady, droop, Outcome.PASS), (droop, steady, Outcome.FAIL)):
            samples = (
                ("time/gpu/cold", Samples(values=time, unit="ms")),
                ("cycles/gpu/cold", Samples(values=cycles, unit="Mcycle")),
            )
            verdict = verdict_with(check, samples=samples)
            assert (verdict.outcome, verdict.reading.unit) == (outcome, "%")
        assert verdict_with(check, samples=samples[1:]).reason.code is Code.METRIC_ABSENT

    def test_a_compute_bound_row_is_judged_in_cycles(self):
        check = make_check(replace(STABILITY, metric=SCATTER, roofs=()))
        plan = make_plan((check,))
        compute = replace(plan, workloads=tuple(replace(workload, roof=Roof.COMPUTE) for workload in plan.workloads))
        for time, cycles, outcome in (
            ((1.0, 1.1, 1.2, 1.3, 1.4), (1.0, 1.001, 1.0, 1.0, 1.0), Outcome.PASS),
            ((1.0, 1.1, 1.2, 1.3, 1.4), (1.0, 1.1, 1.201, 1.3, 1.4), Outcome.FAIL),
            ((1.4, 1.001, 1.3, 1.0, 1.2), (1.0, 1.1, 1.2, 1.3, 1.4), Outcome.FAIL),  # longer and more cycles
            ((1.0, 1.001, 1.0, 1.0, 1.0), (1.0, 1.1, 1.2, 1.3, 1.4), Outcome.PASS),  # as a kernel of memory, whose clock stays
        ):
            samples = (
                ("time/gpu/cold", Samples(values=time, unit="ms")),
                ("cycles/gpu/cold", Samples(values=cycles, unit="Mcycle")),
            )
            observed = good_observation(compute, BUILDS[0], check.gate.evidence, check.target, samples=samples)
            assert judged(make_evidence(observations=(observed,)), plan=compute).verdicts[0].outcome is outcome
