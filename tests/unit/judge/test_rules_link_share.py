"""The share of a link's peak comes from the recorded bandwidth and the suite, and never from the evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence_factories import make_observation
from factories import make_check, make_gate, make_limit

from flashcore_ci.judge.rules import Evaluation, evaluate
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import Kind, Rule
from flashcore_ci.model.verdict import Outcome

LIMIT = make_limit(34.0, "%")
GATE = make_gate("link-share", evidence=Kind.TIMING, metric="link/share", rule=Rule.AT_LEAST, limits=(LIMIT,), peak=450e9)


def judged(bandwidth: Reading, *more: tuple[str, Reading], peak: float | None = 450e9) -> Evaluation:
    observation = make_observation(Kind.TIMING, readings=(("link/bandwidth", bandwidth), *more))
    return evaluate(make_check(replace(GATE, peak=peak), limit=LIMIT), observation)


def gbps(value: float, unit: str = "GB/s") -> Measured:
    return Measured(value=value, unit=unit)


@pytest.mark.parametrize(
    ("value", "outcome", "code"),
    [
        (153.0, Outcome.PASS, Code.WITHIN_LIMIT),
        (152.9, Outcome.FAIL, Code.UNDER_LIMIT),
        (495.0, Outcome.PASS, Code.WITHIN_LIMIT),
        (496.0, Outcome.INCONCLUSIVE, Code.INVALID_RESULT),
    ],
)
def test_the_share_is_that_of_the_recorded_bandwidth(value: float, outcome: Outcome, code: Code) -> None:
    found = judged(gbps(value))
    assert (found.outcome, found.reason.code) == (outcome, code)
    assert found.reason.facts == (("link/bandwidth", f"{value:.6g} GB/s"),)


def test_the_peak_is_that_of_the_suite() -> None:
    assert judged(gbps(189.0)).reading == Measured(value=42.0, unit="%")
    assert judged(gbps(189.0), peak=900e9).outcome is Outcome.FAIL


def test_a_share_that_the_evidence_claims_does_not_count() -> None:
    claimed = ("link/share", Measured(value=99.0, unit="%"))
    assert judged(gbps(10.0), claimed).outcome is Outcome.FAIL
    assert judged(gbps(10.0), claimed, peak=None).outcome is Outcome.INCONCLUSIVE


def test_no_bandwidth_or_another_unit_is_no_share() -> None:
    lost = Missing(code=Code.RANK_DIED, message="rank 1 ended early")
    assert judged(lost).reason.code is Code.RANK_DIED
    assert judged(gbps(99.0, "byte/s")).reason.code is Code.UNIT_MISMATCH
    absent = evaluate(make_check(GATE, limit=LIMIT), make_observation(Kind.TIMING))
    assert (absent.outcome, absent.reason.code) == (Outcome.INCONCLUSIVE, Code.METRIC_ABSENT)
