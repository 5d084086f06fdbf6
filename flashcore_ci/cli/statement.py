"""The command ``statement``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import answers, options
from flashcore_ci.model.errors import ExitCode, UsageError
from flashcore_ci.run import statement


@click.command("statement")
@click.argument("run", type=options.FILE)
@click.argument("file", type=options.FILE)
@click.option("--check", is_flag=True, help="Write nothing. Exit code 11 unless FILE is the statement of RUN.")
@options.path("--predicate", default=None, text="Also write the predicate alone, for a tool that signs it.")
@options.as_json
def command(*, run: Path, file: Path, check: bool, predicate: Path | None, as_json: bool) -> int:
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
    return answers.finish({"file": file, "run": run, "checked": check}, ExitCode.PASSED, as_json=as_json)
