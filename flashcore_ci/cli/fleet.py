"""The command ``fleet``."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.fleet import run as fleet
from flashcore_ci.fleet.engine import EngineOptions
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.base import prepare
from flashcore_ci.run.request import Request


@click.group("fleet")
def command() -> None:
    """Measure one suite on several GPUs."""


@command.command("run")
@options.suite
@options.out
@options.evidence
@options.only
@click.option(
    "--engine",
    type=click.Choice([*fleet.ENGINES, "ci"]),
    default="local",
    show_default=True,
    help="All GPUs of this machine, a Slurm array job, or the matrix of a GitHub job on standard output.",
)
@click.option("--gpus", type=click.IntRange(1, 256), default=2, show_default=True, help="Slurm and ci: shards at most.")
@click.option("--slurm", "slurm", default="--gres=gpu:1 --exclusive", show_default=True, help="Options for sbatch.")
@click.option("--base", metavar="REVISION", help="Also compare with the commit at which this branch left REVISION.")
@options.build
@options.toolchain
@options.allow_process
@options.lock_timeout
@options.jobs
@options.as_json
def run(*, out: Path, engine: str, gpus: int, slurm: str, as_json: bool, **arguments: Any) -> int:
    """Cut the suite, measure every shard, join the bundles and judge.

    A shard that a machine loses is measured again elsewhere. A failed check is not. `ci` writes the shards to --out.
    """
    try:
        words = tuple(shlex.split(slurm))
    except ValueError:
        raise click.UsageError(f"--slurm has a quotation without an end: {slurm[:80]}") from None
    request = Request(out=out, environ=os.environ, live=True, suite_is_default=options.suite_is_default(), **arguments)
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        request = prepare.with_fork_point(request, request.base) if request.base is not None else request
        if engine == "ci":
            text = fleet.matrix(request, progress, gpus=gpus)
        else:
            report = fleet.run(request, progress, engine=engine, options=EngineOptions(count=gpus, options=words))
    if engine == "ci":
        return answers.finish({"matrix": json.loads(text)}, ExitCode.PASSED, as_json=as_json, text=text)
    console.show_results(report, out, as_json=as_json, environ=os.environ)
    return report.exit_code
