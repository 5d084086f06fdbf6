"""The command ``toolchain``."""

from __future__ import annotations

import os

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.build import install_tools


@click.group("toolchain")
def command() -> None:
    """The pinned CUDA tools in the tool's own folder."""


@command.command("install")
@click.argument("version", type=click.Choice(options.PINNED), default=options.PINNED[0])
@options.as_json
def install(*, version: str, as_json: bool) -> int:
    """Install compiler, disassembler and sanitizer of CUDA VERSION if they are missing."""
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        summary = install_tools(os.environ, version, progress)
    click.echo(summary, err=True)
    return answers.finish({"installed": summary}, ExitCode.PASSED, as_json=as_json)
