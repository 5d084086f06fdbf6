"""The command ``judge``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options
from flashcore_ci.run import gate
from flashcore_ci.run.request import Request


@click.command("judge")
@click.argument("run", type=options.FILE)
@options.suite
@click.option("--out", type=options.FILE, default=None, help="Folder for the reports.  [default: RUN, if a folder]")
@options.only
@options.stale
@options.as_of
@options.as_json
def command(*, run: Path, out: Path | None, as_json: bool, **arguments: Any) -> int:
    """Judge a run folder or bundle again by the suite in this checkout. Needs no GPU.

    By default it is judged as of its collection. The reports have the same bytes everywhere.
    """
    folder = out or (run if run.is_dir() else options.DEFAULT_JUDGED)
    with console.ProgressLine(os.environ) as progress:
        report = gate.judge_run(run, Request(out=folder, environ=os.environ, **arguments), progress)
    console.show_results(report, folder, as_json=as_json, environ=os.environ)
    return report.exit_code
