"""``flashcore-ci collect``: measure, and judge nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.adapters import process
from flashcore_ci.cli import console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import gate
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
def command(*, out: Path, **asked: Any) -> int:
    """Measure on this machine's GPU and write a run folder.

    With --build, binaries made elsewhere are measured: no compiler and no network are needed.
    """
    teller = console.Teller(os.environ)
    request = Request(out=out, environ=os.environ, live=True, **asked)
    with signals.graceful():
        evidence = gate.collect_only(request, teller)
    teller.done()
    click.echo(f"{len(evidence.observations)} observations in {out}; judge them with: flashcore-ci judge {out}", err=True)
    return ExitCode.INCONCLUSIVE if process.stopping() else ExitCode.PASSED
