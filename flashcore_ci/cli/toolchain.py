"""``flashcore-ci toolchain``: the pinned CUDA tools."""

from __future__ import annotations

import os

import click

from flashcore_ci.cli import console, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import toolchain


@click.group("toolchain")
def command() -> None:
    """The pinned CUDA tools in the tool's own folder."""


@command.command("install")
def install() -> int:
    """Install compiler, disassembler and sanitizer if they are missing."""
    progress = console.ProgressLine(os.environ)
    with signals.graceful():
        summary = toolchain.install(os.environ, progress)
    progress.done()
    click.echo(summary, err=True)
    return ExitCode.PASSED
