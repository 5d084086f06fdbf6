"""The command ``history``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.cli.extras import extra
from flashcore_ci.model.errors import ExitCode

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = "sqlite:///.flashcore-ci/history.db"


def db(command: F) -> F:
    """Add the option --db."""
    text = "sqlite:///FILE or postgresql://USER@HOST/NAME. The password is in FLASHCORE_CI_DB_PASSWORD."
    return click.option("--db", default=DEFAULT, show_default=True, metavar="URL", help=text)(command)


@click.group("history")
def command() -> None:
    """Keep what runs measured in a database. Needs the extra `history`."""


@command.command("add")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=options.FILE)
@db
@options.suite
@click.option(
    "--statement",
    "statements",
    multiple=True,
    metavar="FILE",
    type=options.FILE,
    help="The in-toto statement of RUN. Once per RUN, in their order. Verify its signature before.",
)
@click.option(
    "--protected",
    default="origin/main",
    show_default=True,
    metavar="REF",
    help="The branch that runs with a statement must be of.",
)
@click.option("--branch", default="", metavar="NAME", help="The branch of runs without a statement. It is only shown.")
@click.option("--reviewed", is_flag=True, help="Mark the runs as unsigned, but reviewed.")
@options.as_json
def add(*, runs: tuple[Path, ...], as_json: bool, **arguments: Any) -> int:
    """Add runs: folders, or bundles that `pack` wrote.

    A run is stored once. Only runs of the protected branch with their statement feed detection. All others are kept apart.
    """
    from flashcore_ci.run import history  # noqa: PLC0415 - other commands read no runs

    how = history.Import(environ=os.environ, **arguments)
    with console.ProgressLine(os.environ) as progress, extra():
        rows = [(str(path), str(added)) for path, added in history.add(runs, how, progress)]
    for path, added in rows:
        click.echo(f"{path}: {added}", err=True)
    return answers.finish({"runs": dict(rows)}, ExitCode.PASSED, as_json=as_json)


@command.group("anchor")
def anchor() -> None:
    """Pin the build that every recorded commit is timed with, in the file next to the suite."""


def pinning(command: F) -> F:
    """Add the options of commands that pin an anchor."""
    why = click.option("--reason", required=True, metavar="TEXT", help="Why this commit. Reviewers read it.")
    who = click.option("--owner", required=True, metavar="NAME", help="The person or team that answers for it.")
    return click.argument("commit")(options.suite(options.only(why(who(options.measuring(options.as_json(command)))))))


@anchor.command("pin")
@pinning
def pin(*, commit: str, reason: str, owner: str, as_json: bool, **arguments: Any) -> int:
    """Pin the first anchor: COMMIT as built here."""
    from flashcore_ci.run import anchors  # noqa: PLC0415 - other commands do not measure
    from flashcore_ci.run.request import Request  # noqa: PLC0415

    request = Request(out=Path("runs/anchor"), environ=os.environ, **arguments)
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        file = anchors.pin(commit, request, progress, reason=reason, owner=owner)
    click.echo(f"{file}: commit it, and let its owners review it", err=True)
    return answers.finish({"file": str(file)}, ExitCode.PASSED, as_json=as_json)


@anchor.command("replace")
@pinning
@options.path("--out", default=Path("runs/anchor"), text="Folder for the run that measures both anchors.")
@options.path("--anchor-python", default=None, text="The interpreter of the old anchor.  [that of the new one]")
def replace_anchor(*, commit: str, reason: str, owner: str, out: Path, as_json: bool, **arguments: Any) -> int:
    """Replace the anchor by COMMIT. Both are measured together on this machine's GPU, so the history keeps its scale."""
    from flashcore_ci.run import anchors  # noqa: PLC0415
    from flashcore_ci.run.request import Request  # noqa: PLC0415

    request = Request(out=out, environ=os.environ, **arguments)
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        file, unlinked = anchors.replaced(commit, request, progress, reason=reason, owner=owner)
    click.echo(f"{file}: commit it, and let its owners review it", err=True)
    for name in unlinked:
        click.echo(f"{name}: not measured with both, so its history begins a new scale", err=True)
    return answers.finish({"file": str(file), "unlinked": list(unlinked)}, ExitCode.PASSED, as_json=as_json)


@command.command("list")
@db
@click.option("--newest", type=click.IntRange(1, 1_000_000), default=20, show_default=True, help="How many runs.")
@options.as_json
def list_runs(*, db: str, newest: int, as_json: bool) -> int:
    """List runs, the newest first."""
    with extra():
        from flashcore_ci.run import history_reading as history  # noqa: PLC0415
    lines = list(history.listed(db, os.environ, newest=newest))
    return answers.finish({"lines": lines}, ExitCode.PASSED, as_json=as_json, text="\n".join(lines))


@command.command("show")
@click.argument("digest")
@db
@options.as_json
def show(*, digest: str, db: str, as_json: bool) -> int:
    """Show the run whose digest begins with DIGEST: workloads, and the verdicts that are not a PASS."""
    with extra():
        from flashcore_ci.run import history_reading as history  # noqa: PLC0415
    lines = list(history.shown(db, os.environ, digest))
    return answers.finish({"lines": lines}, ExitCode.PASSED, as_json=as_json, text="\n".join(lines))


@command.command("export")
@db
@click.option("--format", "form", type=click.Choice(["csv", "openmetrics"]), default="csv", show_default=True)
@options.as_json
def export(*, db: str, form: str, as_json: bool) -> int:
    """Write every point as CSV, or the newest of each series as OpenMetrics, to standard output."""
    with extra():
        from flashcore_ci.run import history_reading as history  # noqa: PLC0415
    lines = history.exported(db, os.environ, form)
    if as_json:
        return answers.finish({"format": form, "lines": list(lines)}, ExitCode.PASSED, as_json=True)
    for line in lines:
        sys.stdout.write(line)
    return ExitCode.PASSED


@command.command("retain")
@db
@click.option("--days", type=click.IntRange(min=1, max=36_500), required=True, help="Keep the runs of these days.")
@click.option("--protected", is_flag=True, help="Also remove old runs that feed detection, or were reviewed.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@options.as_json
def retain(*, db: str, days: int, protected: bool, dry_run: bool, as_json: bool) -> int:
    """Remove old runs, and what only they used. Runs that an alert names stay."""
    with extra():
        from flashcore_ci.run import history_reading as history  # noqa: PLC0415
    count = history.retain(db, os.environ, days=days, protected=protected, dry_run=dry_run)
    click.echo(f"{'would remove' if dry_run else 'removed'} {count} runs", err=True)
    return answers.finish({"runs": count, "dry_run": dry_run}, ExitCode.PASSED, as_json=as_json)


@command.command("upgrade")
@db
@click.option(
    "--to",
    type=click.Choice(["base", "0001", "0002", "0003", "0004"]),
    help="Another revision. `base` drops all tables.  [default: the newest]",
)
@options.as_json
def upgrade(*, db: str, to: str | None, as_json: bool) -> int:
    """Migrate the tables to this version of the tool."""
    with extra():
        from flashcore_ci.run import history_reading as history  # noqa: PLC0415
    before, after = history.upgrade(db, os.environ, to or "")
    click.echo(f"from {before or 'nothing'} to {after or 'nothing'}", err=True)
    return answers.finish({"from": before, "to": after}, ExitCode.PASSED, as_json=as_json)
