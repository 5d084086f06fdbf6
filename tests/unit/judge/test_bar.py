"""One verdict per change, or one for the suite."""

import pytest
from bars import ORIGIN, SUITE, accept, edit, judged, read
from report_factories import make_verdict

from flashcore_ci.judge import bar, summary
from flashcore_ci.model.bar import BarChange, BarDifference
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.suite import BAR
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.run.bar import unknown


def difference(*changes, **fields):
    return BarDifference(**{"base": "b" * 64, "digest": "d" * 64, "changes": changes, **fields})


def change(code=Code.CHECK_LOOSENED, **fields):
    return BarChange(**{"code": code, "where": f"check {code}", "before": "value 1", "after": "value 2", **fields})


def judge_bar(found, *acceptances, **keywords):
    return bar.judge_bar(found, acceptances, origin=ORIGIN, **keywords)


def test_nothing_lower_is_one_pass():
    (verdict,) = judge_bar(difference())
    assert (verdict.gate, verdict.target, verdict.outcome, verdict.blocks) == (BAR, "suite", Outcome.PASS, False)


@pytest.mark.parametrize("code", [Code.NEWER_SUITE, Code.BAR_UNKNOWN])
def test_what_nobody_could_compare_is_inconclusive(code):
    (verdict,) = judge_bar(unknown("because", code))
    assert (verdict.outcome, verdict.reason.code, verdict.blocks) == (Outcome.INCONCLUSIVE, code, True)
    assert verdict.next_step == NEXT_STEP[code]


def test_a_comparison_without_digests_is_none():
    (verdict,) = judge_bar(difference(digest=""))
    assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.BAR_UNKNOWN)


def test_each_change_fails_with_its_code_and_an_unknown_code_is_no_pass():
    verdicts = judge_bar(difference(change(Code.MADE_ADVISORY), change("within-limit"), change("future")))
    assert [v.outcome for v in verdicts] == [Outcome.FAIL] * 3
    assert [v.reason.code for v in verdicts] == [Code.MADE_ADVISORY, Code.CHECK_LOOSENED, Code.CHECK_LOOSENED]


def test_many_changes_are_counted():
    many = judge_bar(difference(*(change(where=f"check {number}") for number in range(bar.MOST_CHANGES + 7))))
    assert len(many) == bar.MOST_CHANGES + 1
    assert many[-1].target == "7 more changes"
    assert many[-1].blocks


def test_a_changed_subject_needs_the_second_judgement():
    changed = change(Code.SUBJECT_CHANGED, subject="scale")
    (verdict,) = judge_bar(difference(changed), problem="no such file")
    assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.SUBJECT_CHANGED)
    assert "the base's subject files: no such file" in verdict.notes
    (verdict,) = judge_bar(difference(changed), judged_again=("scale",))
    assert verdict.outcome is Outcome.PASS
    assert bar.changed_subjects(difference(changed, change())) == ("scale",)


def test_an_acceptance_that_does_not_fit_is_named():
    base = difference(change())
    (verdict,) = judge_bar(base, accept(base, difference="0" * 64))
    assert verdict.blocks
    assert "a.toml accepts another difference and has no effect" in verdict.notes
    (verdict,) = judge_bar(base, accept(base, base="0" * 64))
    assert "a.toml is for another base and has no effect" in verdict.notes


def test_the_headline_names_the_bar_first(tmp_path):
    base, head = read(tmp_path / "base"), read(tmp_path / "head", edit(SUITE, ("repeats = 3", "repeats = 1")))
    lower = judged(base, head)
    assert summary.headline((*lower, make_verdict())) == (
        "FAIL: the bar is not the base's (1 check-loosened). 1 of 2 checks blocks this merge"
    )
    accepted = bar.judge_bar(difference(change()), (accept(difference()),), origin=ORIGIN)
    assert summary.headline((*accepted, make_verdict())).startswith(
        "PASS: the bar is not the base's (1 accepted by a reviewed file). "
    )
