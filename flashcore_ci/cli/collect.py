"""``flashcore-ci collect``: measure without a verdict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.collect import collect_run
from flashcore_ci.run.interrupts import is_stopping
from flashcore_ci.run.request import Request


@click.command("collect")
@options.suite
@options.out
@options.build
@options.only
@options.toolchain
@options.allow_process
@options.gpu
@options.lock_timeout
@options.jobs
def command(*, out: Path, **arguments: Any) -> int:
    """Measure on this machine's GPU and write a run folder, without a verdict.

    With --build, binaries from another machine are measured. That needs no compiler and no network.
    """
    progress = console.ProgressLine(os.environ)
    with signals.graceful():
        evidence = collect_run(Request(out=out, environ=os.environ, live=True, **arguments), progress)
    progress.done()
    click.echo(f"{len(evidence.observations)} observations in {out}. Judge them: flashcore-ci judge {out}", err=True)
    return ExitCode.INCONCLUSIVE if is_stopping() else ExitCode.PASSED
