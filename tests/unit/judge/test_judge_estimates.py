from dataclasses import replace

import pytest
from evidence_factories import good_observation, make_evidence
from factories import FINITE, SOL_DRAM, STABILITY, make_build, make_check, make_description, make_plan, make_problem
from judging import judged

from flashcore_ci.model.codes import Code
from flashcore_ci.model.suite import Severity
from flashcore_ci.model.verdict import Outcome


def verdict(gate, *, estimated=True, **limit):
    limits = tuple(replace(each, **limit) for each in gate.limits)
    plan = make_plan((make_check(replace(gate, limits=limits)),))
    problems = (make_problem("big", estimated=estimated), make_problem("small"))
    plan = replace(plan, descriptions=(replace(make_description(), problems=problems),))
    return judged(make_evidence(observations=(good_observation(plan, make_build(), gate.evidence, "big"),)), plan=plan).verdicts[
        0
    ]


@pytest.mark.parametrize("gate", [SOL_DRAM, STABILITY, replace(SOL_DRAM, roofs=())])
def test_an_estimate_passes_no_blocking_check_that_a_roof_selects(gate):
    guess = verdict(gate)
    assert (guess.outcome, guess.reason.code, guess.blocks) == (Outcome.INCONCLUSIVE, Code.ESTIMATED_WORK, True)
    assert verdict(gate, estimated=False).outcome is Outcome.PASS


def test_advisory_checks_and_checks_without_a_roof_are_judged():
    assert verdict(SOL_DRAM, severity=Severity.ADVISORY).outcome is Outcome.PASS
    assert verdict(FINITE).outcome is Outcome.PASS
    assert verdict(replace(STABILITY, roofs=())).outcome is Outcome.PASS
