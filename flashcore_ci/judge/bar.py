"""Judge how head's bar differs from the base's: one verdict per change, or one for the whole suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from flashcore_ci.model.bar import Acceptance, BarChange, BarDifference
from flashcore_ci.model.codes import LOOSENING, NEXT_STEP, Code
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import BAR, Kind, Rule, Scope, Severity
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Verdict

TITLE = "Does the suite ask as much as the base's?"
WHY = "A change that lowers the bar would pass by its own rules."
WHOLE = "suite"
MOST_CHANGES = 1_000
MOST_TEXT = 300
WITH_BASE_SUBJECT = " (base's subject)"


def accepted_by(difference: BarDifference, acceptances: Iterable[Acceptance]) -> Acceptance | None:
    """Return the acceptance of exactly this difference from exactly this base."""
    if difference.problem or not difference.digest or not difference.base:
        return None
    named = (difference.base, difference.digest)
    return next((acceptance for acceptance in acceptances if (acceptance.base, acceptance.difference) == named), None)


def changed_subjects(difference: BarDifference) -> tuple[str, ...]:
    """Name the subjects whose files ask something else than the base's."""
    names = (change.subject for change in difference.changes if change.code == Code.SUBJECT_CHANGED)
    return tuple(dict.fromkeys(names))


def judge_bar(
    difference: BarDifference,
    acceptances: Collection[Acceptance],
    *,
    origin: Origin,
    judged_again: Collection[str] = (),
    problem: str = "",
) -> tuple[Verdict, ...]:
    """Give one verdict per change.

    ``judged_again`` names the subjects whose kernels were judged with the base's subject file. ``problem`` says why others were not.
    """
    unread = difference.problem or ("" if difference.base and difference.digest else "the comparison has no digests")
    if unread:
        code = Code.NEWER_SUITE if difference.problem_code == Code.NEWER_SUITE else Code.BAR_UNKNOWN
        missing = Missing(code=code, message=unread)
        return (_verdict(WHOLE, Outcome.INCONCLUSIVE, Reason(code=code, message=unread), missing, origin),)
    notes = tuple(_unused(difference, acceptances))
    if not difference.changes:
        reason = Reason(code=Code.WITHIN_LIMIT, message="the suite asks at least as much as the base's")
        return (replace(_verdict(WHOLE, Outcome.PASS, reason, _count(0), origin), notes=notes),)
    accepted = accepted_by(difference, acceptances)
    shown = difference.changes[:MOST_CHANGES]
    verdicts = [_judge_change(change, accepted, origin, judged_again) for change in shown]
    rest = len(difference.changes) - len(shown)
    if rest:
        more = BarChange(code=Code.CHECK_LOOSENED, where=f"{rest} more changes", before="", after="see `flashcore-ci bar`")
        verdicts.append(_judge_change(more, accepted, origin, ()))
    how = f"the difference is {difference.digest}, from the base {difference.base}"
    extra = (how, *notes, *((f"the base's subject files: {problem}",) if problem else ()))
    return tuple(replace(v, notes=(*v.notes, *(extra if index == 0 else ()))) for index, v in enumerate(verdicts))


def mark_as_base_subject(verdict: Verdict) -> Verdict:
    """Name a verdict that the base's subject file gave, so that it does not replace head's own."""
    title = f"{verdict.title} (judged with the base's subject file)"
    return replace(verdict, gate=f"{verdict.gate}{WITH_BASE_SUBJECT}", title=title)


def _judge_change(change: BarChange, accepted: Acceptance | None, origin: Origin, judged_again: Collection[str]) -> Verdict:
    code = Code(change.code) if change.code in {*LOOSENING, Code.SUBJECT_CHANGED} else Code.CHECK_LOOSENED
    reason = Reason(code=code, message=_describe(change))
    if accepted is not None:
        note = f"accepted in {accepted.file} by {accepted.owner}: {accepted.why}"
        return replace(_verdict(change.where, Outcome.WAIVED, reason, _count(1), origin), notes=(note,))
    if code is not Code.SUBJECT_CHANGED:
        return _verdict(change.where, Outcome.FAIL, reason, _count(1), origin)
    if change.subject not in judged_again:
        return _verdict(change.where, Outcome.INCONCLUSIVE, reason, Missing(code=code, message=reason.message), origin)
    message = f"{reason.message}. The kernel is also judged with the base's subject file"
    return _verdict(change.where, Outcome.PASS, Reason(code=Code.WITHIN_LIMIT, message=message), _count(0), origin)


def _describe(change: BarChange) -> str:
    before, after = (text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…" for text in (change.before, change.after))
    return f"base: {before or 'not there'}. Head: {after or 'not there'}"


def _unused(difference: BarDifference, acceptances: Iterable[Acceptance]) -> Iterator[str]:
    for acceptance in acceptances:
        if acceptance.base != difference.base:
            yield f"{acceptance.file} is for another base and has no effect"
        elif acceptance.difference != difference.digest:
            yield f"{acceptance.file} accepts another difference and has no effect"


def _count(value: int) -> Reading:
    return Measured(value=float(value), unit="count")


def _verdict(target: str, outcome: Outcome, reason: Reason, reading: Reading, origin: Origin) -> Verdict:
    return Verdict(
        gate=BAR,
        title=TITLE,
        evidence=Kind.BAR,
        target=target,
        scope=Scope.SUBJECT,
        subject=WHOLE,
        outcome=outcome,
        severity=Severity.BLOCKING,
        blocks=outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE},
        deferred=False,
        reason=reason,
        reading=reading,
        rule=Rule.EQUAL,
        limit=0.0,
        unit="count",
        origin=origin,
        next_step=NEXT_STEP.get(reason.code, "") if outcome is not Outcome.PASS else "",
        why=WHY,
    )
