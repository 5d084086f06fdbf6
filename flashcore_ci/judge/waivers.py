"""Waivers: what may be red until a day, and what is odd about those that we have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Waiver
from flashcore_ci.model.verdict import Outcome, Verdict

MAX_DURATION = dt.timedelta(days=366)
NOT_PASSING = frozenset({Outcome.FAIL, Outcome.INCONCLUSIVE})


def day_of(as_of: str) -> dt.date:
    """The UTC day of an ISO 8601 date or time. ValueError when it is none; a time without a zone is UTC."""
    moment = dt.datetime.fromisoformat(as_of)
    return (moment.astimezone(dt.UTC) if moment.tzinfo else moment).date()


def is_active(waiver: Waiver, verdict: Verdict | None, day: dt.date) -> bool:
    """Whether the waiver holds: on ``day`` (its last day is included), or for the pair that the verdict compared.

    One that ends in more than a year does not: what never ends is no exception but another limit.
    """
    if waiver.pair:
        return verdict is not None and dict(verdict.reason.facts).get("pair") == waiver.pair
    return day <= dt.date.fromisoformat(waiver.expires) <= day + MAX_DURATION


def covers(waiver: Waiver, verdict: Verdict) -> bool:
    """Whether the waiver is for this: any red, or, where it names a finding, only findings that match, and every one of them."""
    if not waiver.finding:
        return True
    counted = isinstance(verdict.reading, Measured) and verdict.reading.value == sum(one.count for one in verdict.findings)
    said = (f"{one.kernel} {one.file}:{one.line} {one.message}" for one in verdict.findings)
    return counted and bool(verdict.findings) and all(fnmatchcase(text, waiver.finding) for text in said)


def apply_waivers(verdict: Verdict, waivers: Iterable[Waiver], day: dt.date) -> Verdict:
    """The verdict, WAIVED when it is red and a waiver for it still holds."""
    if verdict.outcome not in NOT_PASSING:
        return verdict
    for waiver in waivers:
        named = (waiver.gate, waiver.target) == (verdict.gate, verdict.target)
        if named and is_active(waiver, verdict, day) and covers(waiver, verdict):
            until = f"for {waiver.pair}" if waiver.pair else f"until {waiver.expires}"
            what = f"suppressed ({waiver.finding})" if waiver.finding else "waived"
            note = f"{what} {until} by {waiver.owner}: {waiver.reason}"
            return replace(verdict, outcome=Outcome.WAIVED, blocks=False, deferred=False, notes=(*verdict.notes, note))
    return verdict


def waiver_notes(waivers: Iterable[Waiver], verdicts: Sequence[Verdict], day: dt.date) -> Iterator[str]:
    """One line for each waiver that does nothing: it has ended, names no check or another pair, or is no longer needed.

    A waiver of a pair waits for the comparison: where nothing is compared, nothing is said of it.
    """
    found = {(verdict.gate, verdict.target): verdict for verdict in verdicts}
    for waiver in waivers:
        name = f"the waiver of {waiver.gate} on {waiver.target}"
        verdict = found.get((waiver.gate, waiver.target))
        if waiver.pair and verdict is not None and not is_active(waiver, verdict, day):
            yield f"{name} is for another pair, {waiver.pair}, and does nothing"
        elif not waiver.pair and dt.date.fromisoformat(waiver.expires) > day + MAX_DURATION:
            yield f"{name} would end on {waiver.expires}, in more than a year, and does nothing"
        elif not waiver.pair and not is_active(waiver, verdict, day):
            yield f"{name} ended on {waiver.expires} and does nothing"
        elif verdict is None and not waiver.pair:
            yield f"{name} matches no check of this plan"
        elif verdict is not None and verdict.outcome in NOT_PASSING and not covers(waiver, verdict):
            yield f"{name} is for findings like {waiver.finding!r}, and there are others"
        elif verdict is not None and verdict.outcome is Outcome.PASS:
            yield f"{name} is not needed: the check passes"
