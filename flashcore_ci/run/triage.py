"""Use cases of alerts that need no database: list them, decide about them, and judge whether all are decided."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import clock, git, git_diff
from flashcore_ci.judge import alerts as judging
from flashcore_ci.model.alerts import MAX_DAYS, UNTRIAGED, AlertFile, AlertState
from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.model.text import visible
from flashcore_ci.model.verdict import Verdict
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.plan import load_suite
from flashcore_ci.run.request import Request
from flashcore_ci.suite.alerts import FOLDER, parse_alert, read_alerts, write_alert


def suite_name(suite: Path, environ: Mapping[str, str]) -> str:
    """Return the name of a suite."""
    return load_suite(Request(suite=suite, out=Path(), environ=environ)).name


def _require_file(suite: Path) -> None:
    """Raise SuiteError for a mistyped suite: there is no alert next to it."""
    if not suite.is_file():
        suite_name(suite, {})


def listed(suite: Path, *, everything: bool) -> tuple[AlertFile, ...]:
    """Return the alerts next to ``suite``, the newest first."""
    _require_file(suite)
    found = (alert for alert in read_alerts(suite) if everything or alert.is_open)
    return tuple(sorted(found, key=lambda alert: (alert.opened, alert.id), reverse=True))


def triage(suite: Path, start: str, *, state: AlertState, owner: str, reason: str, until: str) -> tuple[AlertFile, Path]:
    """Write a decision. UsageError if it is not complete, or if ``start`` begins no alert or more than one."""
    _require_file(suite)
    found = [alert for alert in read_alerts(suite) if start and alert.id.startswith(start)]
    if len(found) != 1:
        raise UsageError(
            f"{'more than one alert begins' if found else 'no alert begins'} with {visible(start)}",
            fix="flashcore-ci alerts list",
        )
    if not found[0].is_open:
        raise UsageError(f"{found[0].id} is fixed", fix="`flashcore-ci alerts update` opens it again if it is slow again")
    decided = dataclasses.replace(found[0], state=state, owner=owner, reason=reason, until=until)
    today = today_utc()
    if state not in UNTRIAGED and not decided.is_decided(today):
        last = (today + dt.timedelta(days=MAX_DAYS)).isoformat()
        fix = f"give --owner, --reason and --until, from {today.isoformat()} to {last}"
        raise UsageError(f'"{state}" is not a complete decision', fix=fix)
    return decided, write_alert(suite, decided)


def today_utc() -> dt.date:
    """Return the day."""
    return dt.datetime.fromtimestamp(clock.wall(), dt.UTC).date()


def verdicts(request: Request, *, as_of: str) -> tuple[Verdict, ...]:
    """Judge the alerts of this checkout, and with a base what became of its alerts."""
    if request.untriaged_days is None:
        return ()
    try:
        present = read_alerts(request.root / request.suite)
        before = _of_base(request) if request.base is not None else ()
    except SuiteError as error:
        return (judging.unreadable(str(error)),)
    day = dt.date.fromisoformat(as_of[:10])
    return judging.judge_alerts(present, before, day=day, days=request.untriaged_days, ended=lambda: _ended(request))


def _ended(request: Request) -> frozenset[str]:
    """Return the alerts that the history saw end."""
    if request.db is None:
        return frozenset()
    from flashcore_ci.history import address, database, queries  # noqa: PLC0415 - rarely needed, and of an extra

    with database.reading(address.parse(request.db, request.environ)) as connection:
        return frozenset(alert.key for alert in queries.alerts(connection) if alert.state == AlertState.FIXED)


def _of_base(request: Request) -> tuple[AlertFile, ...]:
    folder = (request.suite.parent / FOLDER).as_posix()
    with scratch_folder() as logs:
        names = [
            name
            for name in git_diff.files_in(request.repository, request.base or "", folder, logs=logs)
            if name.endswith(".toml")
        ]
        texts = {name: git.file_at(request.repository, request.base or "", name, logs=logs) or b"" for name in names}
    return tuple(parse_alert(text.decode("utf-8", errors="replace"), Path(name).name) for name, text in texts.items())


def lines_of(alert: AlertFile) -> Iterator[str]:
    """Write an alert: one line, and below it what changed."""
    until = f" until {alert.until}" if alert.until else ""
    owner = visible(alert.owner) or "nobody yet"
    yield f"{alert.id}  {alert.state}  {alert.percent:+.2f} %  since {alert.commit[:12]}, found {alert.opened}, {owner}{until}"
    yield from (f"  {visible(s.workload)}: {s.percent:+.2f} % ± {s.standard_error:.2f} %" for s in alert.series)
    yield from (f"  {visible(line)}" for line in alert.changes)
    if alert.reason:
        yield f"  {visible(alert.reason)}"


def plain(alert: AlertFile) -> dict[str, Any]:
    """Return an alert as JSON values."""
    return dataclasses.asdict(alert)
