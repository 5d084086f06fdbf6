"""The command ``baseline``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import baseline
from flashcore_ci.run.baseline import Proposal
from flashcore_ci.run.request import Request

OUT = Path("runs/baseline")


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
    return _show(baseline.propose(run, Request(suite=suite, out=run, environ=os.environ)), as_json=as_json)


@command.command("renew")
@options.suite
@options.path("--out", default=OUT, text="Folder for the runs, one per commit.")
@options.measuring
@options.lock_clocks
@options.as_json
def renew(*, out: Path, as_json: bool, **arguments: Any) -> int:
    """Time the kernels of the last baseline again, after an update of the driver, and write the new baseline.

    Each row is measured at its own commit, so a slowdown since then stays visible. Review the file and commit it.
    """
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        proposal = baseline.renew(Request(out=out, environ=os.environ, **arguments), progress)
    return _show(proposal, as_json=as_json)


def _show(proposal: Proposal, *, as_json: bool) -> int:
    if proposal.dirty:
        click.echo("the run is of a checkout with uncommitted changes", err=True)
    click.echo(f"{proposal.file}: review the changes above and commit it", err=True)
    result = {"file": proposal.file, "changes": proposal.changes, "dirty": proposal.dirty}
    return answers.finish(result, ExitCode.PASSED, as_json=as_json, text="\n".join(proposal.changes))
