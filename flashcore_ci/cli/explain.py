"""The command ``explain``."""

from __future__ import annotations

from pathlib import Path

import click

from flashcore_ci.cli import options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.plan import explain, names


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    suite = context.params.get("suite") or options.DEFAULT_SUITE
    return [name for name in names(suite, Path.cwd()) if name.startswith(incomplete)]


@click.command("explain")
@click.argument("name", shell_complete=_complete)
@options.suite
def command(*, name: str, suite: Path) -> int:
    """Explain the gate or reason code NAME: what it means, and what to do when it is red.

    A reason code needs no suite.
    """
    click.echo(explain(name, suite, Path.cwd()), nl=False)
    return ExitCode.PASSED
