"""The command ``compare``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.run.gate import compare
from flashcore_ci.run.request import Request


@click.command("compare")
@click.argument("base")
@click.argument("head", required=False)
@options.suite
@options.path("--out", default=Path("runs/compare"), text="Folder for the run and its reports.")
@options.only
@options.build
@options.base_build
@options.measuring
@options.lock_clocks
@options.as_json
def command(*, base: str, head: str | None, out: Path, as_json: bool, **arguments: Any) -> int:
    """Is HEAD slower than BASE? Both are git revisions. Without HEAD, this checkout as it is.

    Builds both, times them in turns in fresh processes on this machine's GPU, and judges the gates on comparisons. HEAD's
    suite and subjects define the workloads. Each side runs its own library and binding.
    """
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        report = compare(Request(out=out, environ=os.environ, **arguments), base, head, progress)
    console.show_results(report, out, as_json=as_json, environ=os.environ)
    return report.exit_code
