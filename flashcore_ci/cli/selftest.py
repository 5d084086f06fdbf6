"""The command ``selftest``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.request import Request
from flashcore_ci.selftest import table
from flashcore_ci.selftest.selftest import load_selftest, run_live, run_recorded


@click.command("selftest")
@click.option("--recorded", is_flag=True, help="Judge the recorded run again. Needs no GPU.")
@options.path("--out", default=Path("runs/selftest"), text="Folder for the run and its reports.")
@options.project_path(
    "--file", "selftest", text="The self-test: defects, the suite of broken kernels, and the suite that guards."
)
@options.path("--base", default=None, text="The base's self-test. A defect of it that is gone fails.")
@options.build
@options.measuring
@options.as_json
def command(*, recorded: bool, out: Path, selftest: Path, base: Path | None, as_json: bool, **arguments: Any) -> int:
    """Break the kernels on purpose: does each gate go red on its defect?

    Measures the mutants of the self-test, judges them by the suite that guards, and tampers with evidence. Exit code 0 when
    every gate caught its defects and all else is green, else 10.
    """
    test = load_selftest(Path.cwd(), selftest)
    request = Request(suite=Path(test.suite), out=out, environ=os.environ, live=True, **arguments)
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        run = run_recorded if recorded else run_live
        result = run(test, request, progress, base)
    code = ExitCode.PASSED if result.passed else ExitCode.GATE_FAILED
    return answers.finish(table.plain(result), code, as_json=as_json, text=table.as_text(result), fix="read what is wrong")
