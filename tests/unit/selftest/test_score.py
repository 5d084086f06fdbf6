"""The self-test's own questions, on reports made up."""

from dataclasses import replace

from factories import CHECKS
from judging import GOOD, RED, judged

from flashcore_ci.model.codes import Code
from flashcore_ci.model.suite import Severity
from flashcore_ci.selftest import score
from flashcore_ci.selftest.model import Defect, SelfTest

TEST = SelfTest(suite="s", recording="r", compared="c", clean=("big", "smal*"), defects=())
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
