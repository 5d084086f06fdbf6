"""An intended slowdown is waived for the compared pair of codes only."""

from dataclasses import replace

from comparing import BASE, comparison, plan_of, rounds, verdict_on
from evidence_factories import make_evidence
from factories import make_waiver
from judging import judged

from flashcore_ci.judge.no_slower import pair_of
from flashcore_ci.model.codes import Code
from flashcore_ci.model.verdict import Outcome

SLOWER = comparison(rounds(2.0))
PAIR = pair_of(SLOWER.base, SLOWER.identity)
WAIVER = make_waiver("no-slower", "big", expires="", pair=PAIR, codes=(Code.SLOWER,))


def report(observation=SLOWER, waiver=WAIVER):
    return judged(make_evidence(observations=(observation,)), plan=plan_of(), waivers=(waiver,), as_of="2099-01-01")


def test_the_verdict_names_the_pair_for_a_waiver():
    assert f'pair = "{PAIR}" and codes = ["slower"]' in verdict_on(SLOWER).notes[-1]


def test_the_waiver_covers_its_pair_on_every_day():
    (verdict,) = report().verdicts
    assert (verdict.outcome, verdict.blocks) == (Outcome.WAIVED, False)
    assert f"waived for {PAIR} by kernels" in verdict.notes[-1]


def test_the_waiver_of_another_code_covers_nothing():
    (verdict,) = report(waiver=replace(WAIVER, codes=(Code.OVER_LIMIT, Code.DRIFTED))).verdicts
    assert verdict.outcome is Outcome.FAIL


def test_the_waiver_covers_no_other_pair():
    for part in ("machine_code", "launcher", "binding"):
        for side in ("base", "identity"):
            other = replace(getattr(SLOWER, side), **{part: "changed"})
            assert pair_of(**{"base": SLOWER.base, "head": SLOWER.identity, {"identity": "head"}.get(side, side): other}) != PAIR
    moved = comparison(rounds(2.0), base=replace(BASE, launcher="changed"))
    found = report(moved)
    assert found.verdicts[0].outcome is Outcome.FAIL
    assert f"is for another pair, {PAIR}, and has no effect" in found.notes[-1]


def test_the_waiver_is_not_needed_without_a_slowdown():
    assert report(comparison(rounds(0.0))).notes[-1].endswith("is not needed: the check passes")


def test_the_waiver_gets_no_note_without_a_comparison():
    found = judged(make_evidence(), plan=plan_of(), waivers=(make_waiver("no-slower", "elsewhere", expires="", pair=PAIR),))
    assert not any("waiver" in note for note in found.notes)
