"""``flashcore-ci toolchain``: the pinned CUDA tools."""

from __future__ import annotations

import os

import click

from flashcore_ci.build import toolchain as tools
from flashcore_ci.cli import console, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.suite.settings import Settings


@click.group("toolchain")
def command() -> None:
    """The pinned CUDA tools in flashcore-ci's own folder."""


@command.command("install")
def install() -> int:
    """Install compiler, disassembler and sanitizer, unless they are there already."""
    teller = console.Teller(os.environ)
    settings = Settings.from_environment(os.environ)
    with signals.graceful():
        found = tools.install(settings.home, str(settings.python), teller)
    teller.done()
    click.echo(f"{found.compiler}, compute-sanitizer {found.sanitizer_version}: {found.nvcc.parent}", err=True)
    return ExitCode.PASSED
