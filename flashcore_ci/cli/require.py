"""The command ``require``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.cli.extras import extra
from flashcore_ci.run.request import Request
from flashcore_ci.run.required_check import require


@click.command("require")
@click.argument("evidence", type=options.FILE)
@options.suite
@options.path("--out", default=Path("runs/required"), text="Folder for reports.")
@click.option("--needs", default=None, metavar="JSON", help="GitHub's `toJSON(needs)`. Every job in it must have succeeded.")
@click.option("--demand", default=None, metavar="JOBS", help="The jobs that --needs must hold, as in `ci gpu attest`.")
@click.option(
    "--base", metavar="REVISION", help="Also require the comparison with the commit at which this branch left REVISION."
)
@options.path(
    "--statement", default=None, text="The in-toto statement of EVIDENCE. It must be exactly the one that EVIDENCE gives."
)
@options.path(
    "--base-evidence", default=None, text="Evidence of the base, for workloads that the GPU job left out. Needs --base."
)
@options.path("--base-statement", default=None, text="The signed statement of --base-evidence.")
@click.option(
    "--untriaged-days",
    type=click.IntRange(0, 366),
    metavar="DAYS",
    help="Also require that no alert next to the suite stays without a decision for longer.",
)
@click.option(
    "--db", metavar="URL", help="The history that `alerts update` wrote. An alert ends in a change only if it ended there."
)
@options.build
@options.base_build
@options.toolchain
@options.jobs
@options.as_json
def command(
    *,
    evidence: Path,
    out: Path,
    needs: str | None,
    demand: str | None,
    base: str | None,
    statement: Path | None,
    base_evidence: Path | None,
    base_statement: Path | None,
    as_json: bool,
    **arguments: Any,
) -> int:
    """Require that EVIDENCE, which the GPU job packed, is of this commit and green.

    Builds the kernels again. Only measurements with the digests of these builds count. Exit code 11 when a needed job failed,
    or the evidence is of another commit.
    """
    if (base_evidence is None) != (base_statement is None):
        raise click.UsageError("--base-evidence and --base-statement belong together: give both")
    rest = (base_evidence, base_statement) if base_evidence is not None and base_statement is not None else None
    request = Request(out=out, environ=os.environ, live=False, suite_is_default=options.suite_is_default(), **arguments)
    with signals.graceful(), console.ProgressLine(os.environ) as progress, extra():
        report = require(evidence, request, progress, needs=needs, demand=demand, base=base, statement=statement, rest=rest)
    console.show_results(report, out, as_json=as_json, environ=os.environ)
    return report.exit_code
