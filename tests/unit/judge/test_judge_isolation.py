from dataclasses import replace

import pytest
from evidence_factories import good_observation, make_evidence
from factories import FINITE, STABILITY, make_build, make_check, make_description, make_plan
from judging import judged

from flashcore_ci.model import isolation
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Isolation
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Trust
from flashcore_ci.model.verdict import Outcome

FULL = Isolation(mode="own process", network="none", user="own", filesystem="allow-list", clock=isolation.CLOCK)


def verdict(gate, *, trust=Trust.NONE, **changes):
    plan = make_plan((make_check(gate),))
    plan = replace(plan, descriptions=(make_description(trust=trust, candidate=("c.py",)),))
    observation = good_observation(plan, make_build(), gate.evidence, "big", **changes)
    return judged(make_evidence(observations=(observation,)), plan=plan).verdicts[0]


@pytest.mark.parametrize("gate", [FINITE, STABILITY])
def test_isolated_evidence_passes_and_says_how(gate):
    passed = verdict(gate, isolation=FULL)
    assert passed.outcome is Outcome.PASS
    assert isolation.describe(FULL) in passed.notes


@pytest.mark.parametrize("gate", [FINITE, STABILITY])
@pytest.mark.parametrize("claimed", [None, replace(FULL, network="open")])
def test_weaker_evidence_is_inconclusive_and_blocks(gate, claimed):
    weak = verdict(gate, isolation=claimed)
    assert (weak.outcome, weak.reason.code, weak.blocks) == (Outcome.INCONCLUSIVE, Code.NOT_ISOLATED, True)


def test_a_trusted_subject_needs_no_isolation():
    assert verdict(FINITE, trust=Trust.FULL).outcome is Outcome.PASS


def test_a_failure_keeps_its_own_reason():
    failed = verdict(FINITE, missing=Missing(code=Code.CRASH, message="it ended"))
    assert (failed.outcome, failed.reason.code) == (Outcome.FAIL, Code.CRASH)


@pytest.mark.parametrize("code", [Code.CLOCKS_DISAGREE, Code.NOT_ISOLATED, Code.INPUTS_ALIKE])
def test_the_codes_of_isolation_are_inconclusive(code):
    assert verdict(STABILITY, missing=Missing(code=code, message="x"), isolation=FULL).outcome is Outcome.INCONCLUSIVE
