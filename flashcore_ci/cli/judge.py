"""``flashcore-ci judge``: the verdict on a run again, anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options
from flashcore_ci.run import gate
from flashcore_ci.run.request import Request


@click.command("judge")
@click.argument("run", type=click.Path(path_type=Path))
@options.suite
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Folder for the reports.  [default: RUN, if a folder]")
@options.only
@options.stale
@options.as_of
@options.as_json
def command(*, run: Path, out: Path | None, as_json: bool, **asked: Any) -> int:
    """Judge a run folder or bundle again by the suite in this checkout; needs no GPU.

    It is judged as of the time of collection unless --as-of says otherwise, and gives the same bytes everywhere.
    """
    teller = console.Teller(os.environ)
    folder = out or (run if run.is_dir() else options.DEFAULT_JUDGED)
    report = gate.judge_run(run, Request(out=folder, environ=os.environ, **asked), teller)
    teller.done()
    console.present(report, folder, as_json=as_json, environ=os.environ)
    return report.exit_code
