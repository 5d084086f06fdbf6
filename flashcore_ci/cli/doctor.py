"""The command ``doctor``."""

from __future__ import annotations

import os

import click

from flashcore_ci.cli import answers, options
from flashcore_ci.doctor.facts import examine
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import hints


@click.command("doctor")
@options.toolchain
@options.allow_process
@options.gpu
@options.as_json
@click.option("--runner", is_flag=True, help="Also check whether a self-hosted runner is set up safely (docs/runner.md).")
def command(*, toolchain: str, allow_process: tuple[str, ...], gpu: str, runner: bool, as_json: bool) -> int:
    """Can this machine gate? Lists what is missing, and the fix. Exit code 4 when something is missing.

    --runner adds the items of docs/runner.md: verified, failed, or cannot be seen from here. Run it in a job of that runner.
    """
    examination = examine(os.environ, toolchain=toolchain, allow=allow_process, gpu=gpu, runner=runner)
    code = ExitCode.PASSED if examination.passed else ExitCode.CANNOT_COLLECT
    text = hints.repeat(examination.text, answers.given_options(click.get_current_context()))
    fix = next((item["fix"] for item in examination.items if item["fix"] and item["status"] != "ok"), "")
    return answers.finish({"items": examination.items}, code, as_json=as_json, text=text, fix=fix)
