"""The self-test's own questions, on reports made up."""

from dataclasses import replace

import pytest
from factories import CHECKS
from judging import GOOD, RED, judged

from flashcore_ci.model.codes import Code
from flashcore_ci.model.suite import Severity
from flashcore_ci.selftest import score, table
from flashcore_ci.selftest.model import Defect, Detection, SelfTest, SelfTestResult

TEST = SelfTest(suite="s", recording="r", guard="c", clean=("big", "smal*"), defects=())
DEFECT = Defect(name="one bad value", gate="finite", target="big", reason=Code.OVER_LIMIT)


def test_a_glob_of_what_is_clean_that_matches_nothing_is_named():
    assert score.idle_globs(replace(TEST, clean=("big", "smal*", "smell*")), judged(GOOD)) == ("smell*",)


def test_a_defect_is_caught_by_its_gate_for_its_reason_and_only_if_that_blocks():
    assert score.detect(DEFECT, judged(RED)).is_right
    assert not score.detect(DEFECT, judged(GOOD)).is_right
    assert not score.detect(replace(DEFECT, reason=Code.CRASH), judged(RED)).is_right
    assert not score.detect(replace(DEFECT, target="absent"), judged(RED)).is_right
    report = judged(RED)
    idle = tuple(replace(verdict, blocks=False, severity=Severity.ADVISORY) for verdict in report.verdicts)
    assert not score.detect(DEFECT, replace(report, verdicts=idle)).is_right


def test_what_has_no_defect_must_be_green():
    assert score.not_green(TEST, judged(GOOD)) == ()
    assert [(verdict.gate, verdict.target) for verdict in score.not_green(TEST, judged(RED))] == [("finite", "big")]
    assert score.not_green(replace(TEST, clean=("small",)), judged(RED)) == ()


def test_a_gate_that_was_green_on_nothing_is_named():
    gates = dict.fromkeys(check.gate.id for check in CHECKS)
    assert score.gates_without_a_control(replace(TEST, clean=("*",)), judged(GOOD)) == ()
    assert score.gates_without_a_control(replace(TEST, clean=("nothing",)), judged(GOOD)) == tuple(gates)


def caught(gate, **changes):
    defect = replace(DEFECT, gate=gate, **changes)
    return Detection(defect=defect, reason=defect.reason, red=True, seconds=None)


def test_a_gate_that_caught_nothing_is_named():
    missed = replace(caught("spills"), red=False)
    altered = caught("memcheck", target="", tampering="cut-log")
    assert score.gates_without_a_defect([caught("finite"), missed, altered], ["finite", "spills", "memcheck"]) == (
        "spills",
        "memcheck",
    )


def test_a_defect_of_the_base_may_not_go():
    second = replace(DEFECT, name="second", target="small")
    base = replace(TEST, defects=(DEFECT, second))
    assert score.dropped_defects(base, replace(TEST, defects=(second, replace(DEFECT, name="another name")))) == ()
    assert score.dropped_defects(base, replace(TEST, defects=(DEFECT,))) == ("second",)
    assert score.dropped_defects(base, replace(TEST, defects=(DEFECT, replace(second, reason=Code.CRASH)))) == ("second",)
    assert score.dropped_defects(base, replace(TEST, defects=(DEFECT, replace(second, target="easy")))) == ("second",)


@pytest.mark.parametrize("field", ["undefended", "dropped", "uncontrolled"])
def test_what_is_missing_fails(field):
    whole = SelfTestResult(detections=(caught("finite"),), not_green=(), uncontrolled=())
    assert whole.passed
    assert not replace(whole, **{field: ("finite",)}).passed
    assert "finite" in table.summary(replace(whole, **{field: ("finite",)}))[0]
