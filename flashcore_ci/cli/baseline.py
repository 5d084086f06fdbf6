"""The command ``baseline``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import answers, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import baseline
from flashcore_ci.run.request import Request


@click.group("baseline")
def command() -> None:
    """The timings that the gate `no-drift` compares later runs with."""


@command.command("propose")
@click.argument("run", type=options.FILE)
@options.suite
@options.as_json
def propose(*, run: Path, suite: Path, as_json: bool) -> int:
    """Write the timings of RUN (a folder or a bundle) as the baseline of its machine.

    The file goes to `baselines` next to the suite. Rows that the run did not time stay. Review the file and commit it.
    """
    proposal = baseline.propose(run, Request(suite=suite, out=run, environ=os.environ))
    if proposal.dirty:
        click.echo("the run is of a checkout with uncommitted changes", err=True)
    click.echo(f"{proposal.file}: review the changes above and commit it", err=True)
    result = {"file": proposal.file, "changes": proposal.changes, "dirty": proposal.dirty}
    return answers.finish(result, ExitCode.PASSED, as_json=as_json, text="\n".join(proposal.changes))
