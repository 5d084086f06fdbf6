"""``flashcore-ci report``: a written report in another form."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import console, outputs
from flashcore_ci.model.errors import ExitCode

FORMS = {
    "json": outputs.REPORT,
    "junit": "junit.xml",
    "markdown": "summary.md",
    "comment": "comment.md",
    "sarif": "results.sarif",
}
"""What ``--format`` calls the files that it prints instead of writing them."""


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path), default=Path("runs/latest"))
@click.option("--format", "form", type=click.Choice(["terminal", *FORMS]), help="Write nothing; print this on standard output.")
def command(*, path: Path, form: str | None) -> int:
    """Show the report in the folder PATH, and write all its files anew. Exit code 0 whatever it says.

    PATH may also be a report.json. What the pictures are made of is in the dossier.json beside it.
    """
    report, dossier = outputs.read(path), outputs.read_dossier(path)
    if form in FORMS:
        click.echo(outputs.rendered(FORMS[form], report, dossier), nl=False)
        return ExitCode.PASSED
    if form is None:
        outputs.write_again(path if path.is_dir() else path.parent, report, dossier)
    console.show(report, os.environ)
    return ExitCode.PASSED
