"""The command ``pack``."""

from __future__ import annotations

from pathlib import Path

import click

from flashcore_ci.cli import answers, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.evidence import pack


@click.command("pack")
@click.argument("run", type=options.FILE)
@click.argument("file", type=options.FILE)
@options.as_json
def command(*, run: Path, file: Path, as_json: bool) -> int:
    """Pack the folder RUN into FILE (.tar.xz). The same run gives the same bytes."""
    size = pack(run, file)
    click.echo(f"{file}: {size} byte", err=True)
    return answers.finish({"file": file, "bytes": size}, ExitCode.PASSED, as_json=as_json)
