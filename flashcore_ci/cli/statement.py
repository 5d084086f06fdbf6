"""The command ``statement``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import options
from flashcore_ci.model.errors import ExitCode, UsageError
from flashcore_ci.run import statement


@click.command("statement")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing. Exit code 11 unless FILE is the statement of RUN.")
@options.path("--predicate", default=None, text="Also write the predicate alone, for a tool that signs it.")
def command(*, run: Path, file: Path, check: bool, predicate: Path | None) -> int:
    """Write the in-toto statement of RUN to FILE: digests, commit, tools and suite.

    The same run gives the same bytes. In a job on GitHub the evidence must be of the job's commit.
    """
    if check and predicate is not None:
        raise UsageError("--check writes nothing, and --predicate writes a file", fix="omit --predicate")
    if check:
        statement.demand(run, file)
    else:
        statement.write(run, file, os.environ, predicate=predicate)
    click.echo(f"{file}: {'the' if check else 'wrote the'} statement of {run}", err=True)
    return ExitCode.PASSED
