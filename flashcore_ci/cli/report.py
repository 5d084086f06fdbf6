"""The command ``report``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import console, options
from flashcore_ci.model.errors import ExitCode, UsageError
from flashcore_ci.run import reports, streams

TERMINAL = "terminal"


@click.command("report")
@click.argument("path", type=options.FILE, default=options.DEFAULT_OUT)
@click.option(
    "--format",
    "form",
    type=click.Choice([TERMINAL, *reports.PRINTABLE]),
    help="Write nothing. Print this format on standard output.",
)
@click.option("--html", is_flag=True, help="Write only report.html, and print its path.")
@options.as_json
def command(*, path: Path, form: str | None, html: bool, as_json: bool) -> int:
    """Show the report in the folder PATH, and write all its files again. Exit code 0 for every outcome.

    PATH may also be a report.json. The data of the charts is in the dossier.json next to it.
    """
    if as_json:
        if html or form not in {None, "json"}:
            raise UsageError("--json prints JSON, and another format was named", fix=f"flashcore-ci report {path} --json")
        form = "json"
    if html and form:
        raise UsageError("--html writes a file and --format prints", fix=f"flashcore-ci report {path} --format {form}")
    if html:
        click.echo(reports.write_page(path))
    elif form is None:
        console.show(reports.rewrite(path), os.environ)
    elif form == TERMINAL:
        console.show(reports.read(path), os.environ)
    elif form == "annotations":
        streams.write_trusted(reports.printable(path, form).decode())
    else:
        click.echo(reports.printable(path, form), nl=False)
    return ExitCode.PASSED
