"""Apply waivers, and note those that have no effect."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from flashcore_ci.judge.rules import UNFINISHED
from flashcore_ci.model.codes import WAIVABLE
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import FINDING, Waiver
from flashcore_ci.model.verdict import Outcome, Verdict

MAX_DURATION = dt.timedelta(days=366)
NOT_PASSING = frozenset({Outcome.FAIL, Outcome.INCONCLUSIVE})


def day_of(as_of: str) -> dt.date:
    """Parse the UTC day of an ISO 8601 text, or raise ValueError."""
    moment = dt.datetime.fromisoformat(as_of)
    return (moment.astimezone(dt.UTC) if moment.tzinfo else moment).date()


def is_active(waiver: Waiver, verdict: Verdict | None, day: dt.date) -> bool:
    """Whether the waiver holds on ``day`` (last day included), or for this pair.

    One that ends in more than a year is never active: it would be another limit, not an exception.
    """
    if waiver.pair:
        return verdict is not None and dict(verdict.reason.facts).get("pair") == waiver.pair
    return day <= dt.date.fromisoformat(waiver.expires) <= day + MAX_DURATION


def covers(waiver: Waiver, verdict: Verdict) -> bool:
    """Whether there is a whole reading, the waiver names its code, and all findings match the waiver, if it names one."""
    is_part = UNFINISHED in dict(verdict.reason.facts)
    if is_part or not isinstance(verdict.reading, Measured) or not names_code(waiver, verdict):
        return False
    is_complete = verdict.reading.value == sum(finding.count for finding in verdict.findings)
    all_match = bool(verdict.findings) and all(_matches(waiver.finding, finding) for finding in verdict.findings)
    return not waiver.finding or (is_complete and all_match)


def names_code(waiver: Waiver, verdict: Verdict) -> bool:
    """Whether the waiver names the reason of this verdict."""
    return verdict.reason.code in WAIVABLE and verdict.reason.code in waiver.codes


def _matches(pattern: str, finding: Finding) -> bool:
    found = FINDING.fullmatch(pattern)
    if found is None or (found["kernel"], found["file"]) != (finding.kernel, finding.file):
        return False
    is_message = finding.message.startswith(found["message"]) if found["rest"] else finding.message == found["message"]
    return is_message and found["line"] in ("*", str(finding.line))


def apply_waivers(verdict: Verdict, waivers: Iterable[Waiver], day: dt.date) -> Verdict:
    """Return the verdict, WAIVED if covered."""
    if verdict.outcome not in NOT_PASSING:
        return verdict
    for waiver in waivers:
        is_named = (waiver.gate, waiver.target) == (verdict.gate, verdict.target)
        if is_named and is_active(waiver, verdict, day) and covers(waiver, verdict):
            until = f"for {waiver.pair}" if waiver.pair else f"until {waiver.expires}"
            what = f"suppressed ({waiver.finding})" if waiver.finding else "waived"
            note = f"{what} {until} by {waiver.owner}: {waiver.reason}"
            return replace(verdict, outcome=Outcome.WAIVED, blocks=False, deferred=False, notes=(*verdict.notes, note))
    return verdict


def waiver_notes(waivers: Iterable[Waiver], verdicts: Sequence[Verdict], day: dt.date) -> Iterator[str]:
    """Yield a line for each waiver without effect. Pairs count in comparisons only."""
    by_key = {(verdict.gate, verdict.target): verdict for verdict in verdicts}
    for waiver in waivers:
        name = f"the waiver of {waiver.gate} on {waiver.target}"
        verdict = by_key.get((waiver.gate, waiver.target))
        if waiver.pair and verdict is not None and not is_active(waiver, verdict, day):
            yield f"{name} is for another pair, {waiver.pair}, and has no effect"
        elif not waiver.pair and dt.date.fromisoformat(waiver.expires) > day + MAX_DURATION:
            yield f"{name} would end on {waiver.expires}, in more than a year, and has no effect"
        elif not waiver.pair and not is_active(waiver, verdict, day):
            yield f"{name} ended on {waiver.expires} and has no effect"
        elif verdict is None and not waiver.pair:
            yield f"{name} matches no check of this plan"
        elif verdict is not None and verdict.outcome in NOT_PASSING and not names_code(waiver, verdict):
            yield f"{name} is for {', '.join(waiver.codes)}, and the check is {verdict.reason.code}"
        elif verdict is not None and verdict.outcome in NOT_PASSING and not covers(waiver, verdict):
            yield f"{name} is for findings like {waiver.finding!r}, and there are others"
        elif verdict is not None and verdict.outcome is Outcome.PASS:
            yield f"{name} is not needed: the check passes"
