"""The command ``selftest``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.request import Request
from flashcore_ci.selftest import table
from flashcore_ci.selftest.selftest import load_selftest, run_live, run_recorded


@click.command("selftest")
@click.option("--recorded", is_flag=True, help="Judge the recorded run again. Needs no GPU.")
@options.path("--out", default=Path("runs/selftest"), text="Folder for the run and its reports.")
@options.path("--base", default=None, text="The base's gates/selftest.toml. A defect of it that is gone fails.")
@options.build
@options.measuring
def command(*, recorded: bool, out: Path, base: Path | None, **arguments: Any) -> int:
    """Break the kernels on purpose: does each gate go red on its defect?

    Measures the mutants of gates/selftest.toml, judges them by the suite that guards, and tampers with evidence. Exit code 0 when
    every gate caught its defects and all else is green, else 10.
    """
    test = load_selftest(Path.cwd())
    request = Request(suite=Path(test.suite), out=out, environ=os.environ, live=True, **arguments)
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        run = run_recorded if recorded else run_live
        result = run(test, request, progress, base)
    click.echo(table.as_text(result), nl=False)
    return ExitCode.PASSED if result.passed else ExitCode.GATE_FAILED
