"""The command ``collect``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import heartbeat as beats
from flashcore_ci.run import hints, host, measuring, place
from flashcore_ci.run.request import Request


@click.command("collect")
@options.suite
@options.out
@options.build
@options.only
@options.path("--shard", default=None, text="Measure only this shard, a file that `shard` wrote.")
@click.option(
    "--given", type=options.FILE, default=None, hidden=True, help="Plan and checked builds, from the gate that runs this shard."
)
@click.option("--neighbours", metavar="UUID,UUID", help="GPUs for workloads of several, after --gpu.  [others of its model]")
@options.path("--heartbeat", default=None, text="A file to touch every few seconds.")
@options.measuring
@options.as_json
def command(*, out: Path, heartbeat: Path | None, as_json: bool, **arguments: Any) -> int:
    """Measure on this machine's GPU and write a run folder, without a verdict.

    With --build, binaries from another machine are measured. That needs no compiler and no network.
    """
    with signals.graceful(), beats.sent(heartbeat), console.ProgressLine(os.environ) as progress:
        evidence = measuring.collect_run(Request(out=out, environ=os.environ, live=True, **arguments), progress)
    options_given = answers.given_options(click.get_current_context())
    following = hints.repeat(f"flashcore-ci judge {shlex.quote(place.seen_from_start(out))}", options_given)
    click.echo(f"{len(evidence.observations)} observations in {out}. Judge them: {following}", err=True)
    code = ExitCode.INCONCLUSIVE if host.is_stopping() else ExitCode.PASSED
    return answers.finish({"out": out, "observations": len(evidence.observations)}, code, as_json=as_json, fix=following)
