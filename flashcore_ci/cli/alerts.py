"""The command ``alerts``."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import click

from flashcore_ci.cli import answers, history, options
from flashcore_ci.cli.extras import extra
from flashcore_ci.model.alerts import AlertState
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import triage as cases

STATES = [state.value for state in AlertState if state is not AlertState.FIXED]


@click.group("alerts")
def command() -> None:
    """Slowdowns over commits. Each is a file in `alerts` next to the suite: review and commit it."""


@command.command("update")
@history.db
@options.suite
@click.option("--reviewed", is_flag=True, help="Also use runs that are unsigned, but reviewed.")
@options.as_json
def update(*, db: str, suite: Path, reviewed: bool, as_json: bool) -> int:
    """Look for slowdowns in the whole history. Opens new alerts, and closes those whose slowdown is gone.

    A suspicion is not an alert yet. Measure its code again with as many rounds as this names, add the run, and update again.
    """
    with extra():
        from flashcore_ci.run import alerts  # noqa: PLC0415 - needs the extra
    done = alerts.update(db, os.environ, suite, name=cases.suite_name(suite, os.environ), reviewed=reviewed)
    result = {name: list(getattr(done, name)) for name in ("opened", "closed", "open", "again")}
    return answers.finish(result, ExitCode.PASSED, as_json=as_json, text="\n".join(done.lines))


@command.command("list")
@options.suite
@click.option("--all", "everything", is_flag=True, help="Also alerts that are fixed.")
@options.as_json
def list_alerts(*, suite: Path, everything: bool, as_json: bool) -> int:
    """List open alerts: id, state, slowdown, day, owner, workloads, and below it what changed."""
    found = cases.listed(suite, everything=everything)
    text = "\n".join(line for alert in found for line in cases.lines_of(alert)) or "no alert is open"
    return answers.finish({"alerts": [cases.plain(alert) for alert in found]}, ExitCode.PASSED, as_json=as_json, text=text)


@command.command("triage")
@click.argument("alert")
@click.option("--state", type=click.Choice(STATES), required=True, help="`verify`: its owner says that it is fixed.")
@click.option("--owner", default="", help="The owner of this decision.")
@click.option("--reason", default="", help="Why.")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), help="The last day of this decision, at most 92 days ahead.")
@options.suite
@options.as_json
def triage(*, alert: str, state: str, owner: str, reason: str, until: dt.datetime | None, suite: Path, as_json: bool) -> int:
    """Decide what happens to the alert whose id begins with ALERT. Only `update` calls one fixed.

    `active`, `ignored` and `verify` need --owner, --reason and --until. After that day the alert is untriaged again.
    """
    day = until.date().isoformat() if until else ""
    changed, file = cases.triage(suite, alert, state=AlertState(state), owner=owner, reason=reason, until=day)
    click.echo(f"{file}: review the change and commit it", err=True)
    text = "\n".join(cases.lines_of(changed))
    return answers.finish({"alert": cases.plain(changed), "file": str(file)}, ExitCode.PASSED, as_json=as_json, text=text)
