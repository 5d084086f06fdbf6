"""``flashcore-ci report``: a written report in another form."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import console, outputs
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.report import junit, markdown
from flashcore_ci.store.codec import encode


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path), default=Path("runs/latest"))
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "junit", "markdown", "json"]),
    default="terminal",
    show_default=True,
    help="What to print on standard output.",
)
def command(*, path: Path, form: str) -> int:
    """Show a report.json (or the one in a folder), or print it in another format. Exit code 0 whatever it says."""
    report = outputs.read(path)
    if form == "terminal":
        console.show(report, os.environ)
    elif form == "junit":
        click.echo(junit.render(report), nl=False)
    elif form == "markdown":
        click.echo(markdown.render(report), nl=False)
    else:
        click.echo(encode(report), nl=False)
    return ExitCode.PASSED
