"""``flashcore-ci calibrate``: how small a change does this machine show?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options, signals
from flashcore_ci.collect import calibration
from flashcore_ci.collect.calibration import Wanted
from flashcore_ci.judge.power import analyse_power
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.noise import Noise
from flashcore_ci.run import calibrate, gate, references
from flashcore_ci.run.calibrate import Wish
from flashcore_ci.run.request import Request
from flashcore_ci.store import record_files as files


@click.command("calibrate")
@options.suite
@click.option(
    "--planted",
    type=click.Path(path_type=Path),
    default=Path("gates/planted.toml"),
    show_default=True,
    help="The suite of kernels with slow-downs planted in them.",
)
@options.only
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=Path("runs/calibrate"),
    show_default=True,
    help="Folder of the unfinished recording: the next call goes on with it.",
)
@click.option("--out", type=click.Path(path_type=Path), default=None, help="The noise model.  [default: gates/noise/GPU.json]")
@click.option("--for", "seconds", type=click.FloatRange(min=0), default=None, metavar="SECONDS", help="Stop after this time.")
@click.option("--processes", type=click.IntRange(min=2), default=40, show_default=True, help="A/A processes.")
@click.option("--planted-processes", type=click.IntRange(min=0), default=14, show_default=True, help="Processes of planted ones.")
@options.build
@options.toolchain
@options.allow_process
@options.gpu
@options.lock_timeout
@options.lock_clocks
@options.jobs
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
    **asked: Any,
) -> int:
    """How small a change does this machine show? Record its noise.

    Times the suite's kernels against themselves, and test builds with planted slow-downs, in many fresh processes. May be
    stopped at any time, and goes on where it was. With --build, the folder holds a build of each suite under its name.
    """
    teller = console.Teller(os.environ)
    requests = tuple(
        Request(
            suite=file,
            out=work / file.stem,
            environ=os.environ,
            only=globs,
            live=True,
            build=None if build is None else build / file.stem,
            **asked,
        )
        for file, globs in ((suite, only or ("stability",)), (planted, ()))
    )
    wish = Wish(folder=work, out=out, seconds=seconds, wanted=Wanted(same=processes, planted=planted_processes))
    with signals.graceful():
        ledger, written = calibrate.record(requests[0], requests[1], wish, teller)
    teller.done()
    done = {part: len(ledger.of(part)) for part in ("same", "planted")}
    click.echo(
        f"{done['same']} of {processes} A/A processes, {done['planted']} of {planted_processes} with planted slow-downs"
        f"{f': {written}' if written else ''}",
        err=True,
    )
    if written is not None:
        for workload in analyse_power(files.read(Noise, written), references.margins(gate.suite_of(requests[0]))):
            click.echo(workload)
    return ExitCode.INCONCLUSIVE if calibration.next_part(ledger, wish.wanted) else ExitCode.PASSED
