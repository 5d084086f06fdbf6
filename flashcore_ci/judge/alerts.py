"""Judge alerts: each is decided in time, and none of the base's vanishes or is changed by hand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Container, Iterable, Sequence

from flashcore_ci.model.alerts import FACTS, AlertedSeries, AlertFile, AlertState
from flashcore_ci.model.codes import NEXT_STEP, PASSING, Code
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import ALERTS, Kind, Rule, Scope, Severity
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Verdict

TITLE = "Has somebody decided about every slowdown over commits?"
WHY = "A slowdown that nobody looks at becomes the new normal."
WHOLE = "alerts"


def judge_alerts(
    present: Sequence[AlertFile],
    before: Iterable[AlertFile],
    *,
    day: dt.date,
    days: int,
    ended: Callable[[], Container[str]] = frozenset,
) -> tuple[Verdict, ...]:
    """Give one verdict per alert that is open here or in the base (``before``).

    ``days``: how old an untriaged one may be. ``ended`` looks up which alerts the history saw end.
    """
    here = {alert.id: alert for alert in present}
    found = []
    for old in before:
        if old.is_open and (problem := _tampered(old, here.get(old.id), ended)):
            code, message = problem
            found.append(_verdict(old.id, code, message, Measured(value=1.0, unit="count")))
    named = {verdict.target for verdict in found}
    found += [_judge(alert, day, days) for alert in present if alert.is_open and alert.id not in named]
    if not found:
        return (_verdict(WHOLE, Code.WITHIN_LIMIT, "no alert is open", Measured(value=0.0, unit="count")),)
    return tuple(found)


def unreadable(problem: str) -> Verdict:
    """Give the verdict where the files cannot be read."""
    message = problem.splitlines()[0] if problem else "the alerts cannot be read"
    return _verdict(WHOLE, Code.ALERTS_UNREADABLE, message, Missing(code=Code.ALERTS_UNREADABLE, message=message))


def _judge(alert: AlertFile, day: dt.date, days: int) -> Verdict:
    age = alert.age(day)
    if alert.is_decided(day):
        return _verdict(alert.id, Code.WITHIN_LIMIT, f"{alert.state} by {alert.owner} until {alert.until}", _count(0))
    since = f"{alert.percent:+.2f} % since {alert.commit[:12]}, found on {alert.opened}"
    if age <= days:
        return _verdict(alert.id, Code.WITHIN_LIMIT, f"{alert.state}, {since}: {days - age} days are left to decide", _count(0))
    ended = f", and the decision ended on {alert.until}" if alert.until else ""
    return _verdict(
        alert.id, Code.UNTRIAGED_ALERT, f"{since}, is {alert.state} after {age} days (limit {days}){ended}", _count(1)
    )


def _tampered(old: AlertFile, new: AlertFile | None, ended: Callable[[], Container[str]]) -> tuple[Code, str] | None:
    """Say what happened to an open alert of the base that `alerts update` never does. It may gain series, and end with the history."""
    if new is None:
        return Code.ALERT_REMOVED, f"{old.percent:+.2f} % since {old.commit[:12]} is open in the base, and the file is not there"
    names = [name for name in FACTS if name != "series" and getattr(old, name) != getattr(new, name)]
    names += [] if _includes(new.series, old.series) else ["series"]
    if names:
        return Code.ALERT_CHANGED, f"another {' and '.join(names)} than in the base"
    if new.state is AlertState.FIXED and new.closed < old.opened:
        return Code.ALERT_CHANGED, f"closed on {new.closed}, before it was found"
    if new.state is AlertState.FIXED and new.id not in ended():
        return Code.ALERT_ENDED, f"{old.percent:+.2f} % since {old.commit[:12]} is called fixed here, and no history confirms it"
    return None


def _includes(now: Sequence[AlertedSeries], before: Sequence[AlertedSeries]) -> bool:
    return all(each in now for each in before)


def _count(value: int) -> Reading:
    return Measured(value=float(value), unit="count")


def _verdict(target: str, code: Code, message: str, reading: Reading) -> Verdict:
    missing = isinstance(reading, Missing)
    outcome = Outcome.PASS if code in PASSING else Outcome.INCONCLUSIVE if missing else Outcome.FAIL
    return Verdict(
        gate=ALERTS,
        title=TITLE,
        evidence=Kind.ALERTS,
        target=target,
        scope=Scope.SUBJECT,
        subject=WHOLE,
        outcome=outcome,
        severity=Severity.BLOCKING,
        blocks=outcome is not Outcome.PASS,
        deferred=False,
        reason=Reason(code=code, message=message),
        reading=reading,
        rule=Rule.EQUAL,
        limit=0.0,
        unit="count",
        origin=Origin(kind="live", detail="the files next to the suite"),
        next_step=NEXT_STEP.get(code, ""),
        why=WHY,
    )
