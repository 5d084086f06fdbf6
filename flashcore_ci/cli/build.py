"""``flashcore-ci build``: compile, and say what the compiler said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.run import gate
from flashcore_ci.run.request import Request


@click.command("build")
@options.suite
@options.only
@click.option("--out", type=click.Path(path_type=Path), default=Path("build"), show_default=True, help="Folder for the binaries.")
@options.toolchain
@options.jobs
def command(*, out: Path, **asked: Any) -> int:
    """Compile the suite's kernels and record what the compiler says of them.

    Exit code 10 when one does not compile.
    """
    teller = console.Teller(os.environ)
    request = Request(out=out, libraries=out, environ=os.environ, **asked)
    with signals.graceful():
        plan = gate.planned(gate.suite_of(request), request, teller)
        builds = gate.built(plan, request, teller)
    teller.done()
    for build in builds:
        click.echo("\n".join(_lines(build)))
    return ExitCode.GATE_FAILED if any(build.error for build in builds) else ExitCode.PASSED


def _lines(build: BuildEvidence) -> list[str]:
    if build.error is not None:
        place = f"{build.error.file}:{build.error.line}" if build.error.line else build.error.file
        return [f"{build.subject}: {place}: {build.error.message}"]
    lines = [f"{build.subject}: {build.library or 'no machine code of its own'}"]
    for entry in build.entries:
        spills = entry.spill_store_bytes + entry.spill_load_bytes
        lines.append(
            f"  {entry.symbol}: {entry.highest_register} registers, {spills} byte spilled, "
            f"{entry.stack_bytes} byte stack, {entry.static_shared_bytes + entry.dynamic_shared_bytes} byte shared"
        )
        lines += [f"    {warning}" for warning in entry.warnings]
    return lines
