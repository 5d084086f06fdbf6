"""The command ``gate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from flashcore_ci.cli import console, options, signals
from flashcore_ci.cli.extras import extra
from flashcore_ci.fleet import run as fleet
from flashcore_ci.fleet.engine import EngineOptions
from flashcore_ci.run import gate, host
from flashcore_ci.run.base import prepare
from flashcore_ci.run.request import Request


@click.command("gate")
@options.suite
@options.out
@options.evidence
@options.build
@options.only
@options.stale
@click.option("--live/--recorded", "live", default=None, help="Measure here, or use recorded runs.  [default: live with a GPU]")
@click.option(
    "--changed",
    is_flag=False,
    flag_value="origin/main",
    metavar="[COMMIT]",
    help="Judge only what can differ, by digest, from where this branch left COMMIT. Says what is left out.  [origin/main]",
)
@click.option("--base", metavar="REVISION", help="Also compare with the commit at which this branch left REVISION. Needs a GPU.")
@click.option(
    "--anchor", is_flag=True, help="Also time the anchor that the file next to the suite pins, for the history. Base: HEAD^."
)
@options.base_build
@options.sides
@options.lock_clocks
@options.measuring
@click.option(
    "--db", default=None, metavar="URL", help="Also store the run in this history. An error of the database changes no verdict."
)
@options.as_json
def command(*, out: Path, as_json: bool, db: str | None, **arguments: Any) -> int:
    """Build, measure and judge: may this change merge?

    Gives one verdict for every gate on every target, from this machine's GPU or, without one, from recorded runs of the same
    code. Reports in every format go to --out. All GPUs of this machine measure, unless --gpu is given.
    """
    if arguments["anchor"]:
        arguments["base"] = arguments["base"] or "HEAD^"
    request = Request(out=out, environ=os.environ, suite_is_default=options.suite_is_default(), **arguments)
    if db is not None:
        from flashcore_ci.run import history  # noqa: PLC0415 - rarely needed

        with extra():
            history.check_address(db, os.environ)
    chosen = click.get_current_context().get_parameter_source("gpu") is not ParameterSource.DEFAULT
    early = host.starting_early(request, is_chosen=chosen)
    with (
        signals.graceful(),
        console.ProgressLine(os.environ) as progress,
        early as is_one,
        fleet.starting_early(request, is_one=is_one) as ahead,
    ):
        request = prepare.with_fork_point(request, request.base) if request.base is not None else request
        several = not is_one and fleet.has_several_gpus(request)
        if ahead is not None and not several:
            ahead.close()
        report = fleet.run(request, progress, options=EngineOptions(ahead=ahead)) if several else gate.gate(request, progress)
    console.show_results(report, out, as_json=as_json, environ=os.environ)
    if db is not None:
        click.echo(history.add_gate_run(out, report, db, os.environ, suite=request.suite), err=True)
    return report.exit_code
