"""The command ``calibrate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.calibrate import CalibrationRun, calibrate
from flashcore_ci.run.request import Request

WORK = Path("runs/calibrate")


@click.command("calibrate")
@options.suite
@options.project_path("--planted", text="The suite of kernels with planted slow-downs. Without it only A/A processes run.")
@options.only
@options.path("--work", default=WORK, text="Folder of the unfinished recording. The next call continues it.")
@options.path("--out", default=None, text="The noise model.  [default: noise/GPU.json next to the suite]")
@click.option("--for", "seconds", type=options.Seconds(min=0), default=None, metavar="SECONDS", help="Stop after this time.")
@click.option("--processes", type=click.IntRange(min=2), default=40, show_default=True, help="A/A processes.")
@click.option(
    "--planted-processes",
    type=click.IntRange(min=0),
    default=14,
    show_default=True,
    help="Processes that time planted slow-downs.",
)
@options.build
@options.measuring
@options.lock_clocks
@options.as_json
def command(
    *,
    suite: Path,
    planted: Path,
    work: Path,
    out: Path | None,
    seconds: float | None,
    processes: int,
    planted_processes: int,
    only: tuple[str, ...],
    build: Path | None,
    as_json: bool,
    **arguments: Any,
) -> int:
    """Record this machine's noise: how small a change does it show?

    Times the kernels against themselves and with planted slow-downs, in many fresh processes. You can stop it at any time: the
    next call continues. With --build, the folder holds a build of each suite under its name.
    """

    def request(file: Path, globs: tuple[str, ...] = ()) -> Request:
        kept = {"build": build and build / file.stem, "only": globs, "kinds": (Kind.TIMING,), **arguments}
        return Request(suite=file, out=work / file.stem, environ=os.environ, live=True, **kept)

    was_named = click.get_current_context().get_parameter_source("planted") is not click.core.ParameterSource.DEFAULT
    run = CalibrationRun(
        suite=request(suite, only),
        planted=request(planted) if was_named or planted.is_file() else None,
        folder=work,
        out=out,
        seconds=seconds,
        same_processes=processes,
        planted_processes=planted_processes,
    )
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        state = calibrate(run, progress)
    counts = f"{state.same} of {processes} A/A processes, {state.planted} of {planted_processes} with planted slow-downs"
    click.echo(f"{counts}{f': {state.file}' if state.file else ''}", err=True)
    code = ExitCode.PASSED if state.complete else ExitCode.INCONCLUSIVE
    result = {"file": state.file, "same": state.same, "planted": state.planted, "complete": state.complete, "power": state.power}
    return answers.finish(result, code, as_json=as_json, text="\n".join(state.power), fix="run the command again: it continues")
