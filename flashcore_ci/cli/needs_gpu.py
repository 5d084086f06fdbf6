"""The command ``needs-gpu``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.run.needs_gpu import needs_gpu
from flashcore_ci.run.request import Request


@click.command("needs-gpu")
@click.argument("evidence", type=options.FILE)
@options.suite
@options.path("--out", default=Path("runs/needs-gpu"), text="Folder for the decision and the reports.")
@click.option("--base", required=True, metavar="REVISION", help="The branch or commit that this change goes into.")
@click.option(
    "--statement", type=options.FILE, required=True, help="The signed statement of EVIDENCE. Verify its signature before."
)
@click.option("--needs", default=None, metavar="JSON", help="GitHub's `toJSON(needs)`. None of its jobs may have failed.")
@click.option("--demand", default=None, metavar="JOBS", help="The jobs of --needs that must have succeeded, as in `ci decide`.")
@options.toolchain
@options.jobs
@options.as_json
def command(
    *,
    evidence: Path,
    out: Path,
    base: str,
    statement: Path,
    needs: str | None,
    demand: str | None,
    as_json: bool,
    **arguments: Any,
) -> int:
    """Does this commit need a GPU job, or does EVIDENCE of the base answer for it?

    Compares files of git first, and builds only if code differs. Runs nothing of this commit. Exit code 0: no GPU job is needed.
    Exit code 11: one is needed, for the workloads that the decision names (none: all).
    """
    request = Request(out=out, environ=os.environ, live=False, suite_is_default=options.suite_is_default(), **arguments)
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        decision, report = needs_gpu(evidence, request, progress, base=base, statement=statement, needs=needs, demand=demand)
    result = {"needed": decision.needed, "code": decision.code, "reason": decision.reason, "only": decision.only, "out": out}
    return answers.finish(result, report.exit_code, as_json=as_json, text=report.headline, fix="run the GPU job")
