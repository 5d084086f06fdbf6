"""The command ``collect``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.gate import collect_run
from flashcore_ci.run.host import is_stopping
from flashcore_ci.run.request import Request


@click.command("collect")
@options.suite
@options.out
@options.build
@options.only
@options.path("--shard", default=None, text="Measure only this shard, a file that `shard` wrote.")
@options.measuring
def command(*, out: Path, **arguments: Any) -> int:
    """Measure on this machine's GPU and write a run folder, without a verdict.

    With --build, binaries from another machine are measured. That needs no compiler and no network.
    """
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        evidence = collect_run(Request(out=out, environ=os.environ, live=True, **arguments), progress)
    click.echo(f"{len(evidence.observations)} observations in {out}. Judge them: flashcore-ci judge {out}", err=True)
    return ExitCode.INCONCLUSIVE if is_stopping() else ExitCode.PASSED
