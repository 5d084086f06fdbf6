"""The command ``pack``."""

from __future__ import annotations

from pathlib import Path

import click

from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.evidence import pack


@click.command("pack")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
def command(*, run: Path, file: Path) -> int:
    """Pack the folder RUN into FILE (.tar.xz). The same run gives the same bytes."""
    click.echo(f"{file}: {pack(run, file)} byte", err=True)
    return ExitCode.PASSED
