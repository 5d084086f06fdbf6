"""The command ``require``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.cli.extras import extra
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.machines import demand as demand_machines
from flashcore_ci.run.request import Request
from flashcore_ci.run.required_check import require


@click.command("require")
@click.argument("evidence", nargs=-1, required=True, type=options.FILE)
@options.suite
@options.path("--out", default=Path("runs/required"), text="Folder for reports.")
@click.option("--needs", default=None, metavar="JSON", help="GitHub's `toJSON(needs)`. Every job in it must have succeeded.")
@click.option("--demand", default=None, metavar="JOBS", help="The jobs that --needs must hold, as in `ci gpu attest`.")
@click.option(
    "--base", metavar="REVISION", help="Also require the comparison with the commit at which this branch left REVISION."
)
@click.option(
    "--statement",
    "statements",
    type=options.FILE,
    multiple=True,
    help="The in-toto statement of EVIDENCE, which must be exactly the one that it gives. One for each.",
)
@click.option("--machines", metavar="NAMES", help="Require one EVIDENCE of each, as in `h100,h200`. Each has a folder in --out.")
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
    evidence: tuple[Path, ...],
    out: Path,
    needs: str | None,
    demand: str | None,
    base: str | None,
    statements: tuple[Path, ...],
    machines: str | None,
    base_evidence: Path | None,
    base_statement: Path | None,
    as_json: bool,
    **arguments: Any,
) -> int:
    """Require that EVIDENCE..., which GPU jobs packed, is of this commit and green.

    Builds the kernels again. Only measurements with the digests of these builds count. Exit code 11 when a needed job failed,
    or the evidence is of another commit.
    """
    if (base_evidence is None) != (base_statement is None):
        raise click.UsageError("--base-evidence and --base-statement belong together: give both")
    if statements and len(statements) != len(evidence):
        raise click.UsageError(f"there are {len(evidence)} EVIDENCE and {len(statements)} --statement: give one for each")
    if len(evidence) > 1 and (machines is None or as_json):
        raise click.UsageError("several EVIDENCE need --machines, and --json shows one report")
    rest = (base_evidence, base_statement) if base_evidence is not None and base_statement is not None else None
    request = Request(out=out, environ=os.environ, live=False, suite_is_default=options.suite_is_default(), **arguments)
    codes = set()
    names = demand_machines(machines, evidence, request) if machines is not None else ()
    for number, file in enumerate(evidence):
        place = out / names[number] if names else out
        statement = statements[number] if statements else None
        more: dict[str, Any] = {"needs": needs, "demand": demand, "base": base, "statement": statement, "rest": rest}
        with signals.graceful(), console.ProgressLine(os.environ) as progress, extra():
            report = require(file, replace(request, out=place), progress, **more)
        console.show_results(report, place, as_json=as_json, environ=os.environ)
        codes.add(report.exit_code)
    return next(code for code in (ExitCode.GATE_FAILED, ExitCode.INCONCLUSIVE, ExitCode.PASSED) if code in codes)
