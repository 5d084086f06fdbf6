"""The command ``doctor``."""

from __future__ import annotations

import os

import click

from flashcore_ci.cli import options
from flashcore_ci.doctor.facts import examine
from flashcore_ci.model.errors import ExitCode


@click.command("doctor")
@options.toolchain
@options.allow_process
@options.gpu
@click.option("--runner", is_flag=True, help="Also check whether a self-hosted runner is set up safely (docs/runner.md).")
def command(*, toolchain: str, allow_process: tuple[str, ...], gpu: str, runner: bool) -> int:
    """Can this machine gate? Lists what is missing, and the fix. Exit code 4 when something is missing.

    --runner adds the items of docs/runner.md: verified, failed, or cannot be seen from here. Run it in a job of that runner.
    """
    examination = examine(os.environ, toolchain=toolchain, allow=allow_process, gpu=gpu, runner=runner)
    click.echo(examination.text, nl=False)
    return ExitCode.PASSED if examination.passed else ExitCode.CANNOT_COLLECT
