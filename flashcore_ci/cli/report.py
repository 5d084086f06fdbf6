"""``flashcore-ci report``: a written report in another form."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import console
from flashcore_ci.model.errors import ExitCode, UsageError
from flashcore_ci.report import annotations as remarks
from flashcore_ci.run import reports
from flashcore_ci.store.claim import refuse_foreign

PAGE = "report.html"
FORMS = {
    "json": reports.REPORT,
    "junit": "junit.xml",
    "markdown": "summary.md",
    "comment": "comment.md",
    "sarif": "results.sarif",
    "html": PAGE,
}
"""What ``--format`` calls the files that it prints instead of writing them."""


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path), default=Path("runs/latest"))
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "annotations", *FORMS]),
    help="Write nothing; print this on standard output.",
)
@click.option("--html", is_flag=True, help="Write report.html alone, and print where it is.")
def command(*, path: Path, form: str | None, html: bool) -> int:
    """Show the report in the folder PATH, and write all its files anew. Exit code 0 whatever it says.

    PATH may also be a report.json. What the pictures are made of is in the dossier.json beside it.
    """
    if html and form:
        raise UsageError("--html writes a file and --format prints", fix="give one of the two")
    report, dossier = reports.read(path), reports.read_dossier(path)
    folder = path if path.is_dir() else path.parent
    if form == "annotations":
        click.echo(remarks.render(report, dossier), nl=False)
        return ExitCode.PASSED
    if form in FORMS:
        click.echo(reports.rendered(FORMS[form], report, dossier), nl=False)
        return ExitCode.PASSED
    if html or form is None:
        refuse_foreign(folder)
    if html:
        reports.write_one(PAGE, folder, report, dossier)
        click.echo(folder / PAGE)
        return ExitCode.PASSED
    if form is None:
        reports.write_again(folder, report, dossier)
    console.show(report, os.environ)
    return ExitCode.PASSED
