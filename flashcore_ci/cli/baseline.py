"""The command ``baseline``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import baseline
from flashcore_ci.run.request import Request


@click.group("baseline")
def command() -> None:
    """The timings that the gate `no-drift` compares later runs with."""


@command.command("propose")
@click.argument("run", type=click.Path(path_type=Path))
@options.suite
def propose(*, run: Path, suite: Path) -> int:
    """Write the timings of RUN (a folder or a bundle) as the baseline of its machine.

    The file goes to `baselines` next to the suite. Rows that the run did not time stay. Review the file and commit it.
    """
    proposal = baseline.propose(run, Request(suite=suite, out=run, environ=os.environ))
    for line in proposal.changes:
        click.echo(line)
    if proposal.dirty:
        click.echo("the run is of a checkout with uncommitted changes", err=True)
    click.echo(f"{proposal.file}: review the changes above and commit it", err=True)
    return ExitCode.PASSED
