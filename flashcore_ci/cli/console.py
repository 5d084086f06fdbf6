"""What people see while something runs: progress on standard error, results on standard output.

A terminal gets one line that changes; a log gets plain lines and no spinner.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from flashcore_ci.model.verdict import Report
from flashcore_ci.store.codec import encode
from flashcore_ci.store.run import REPORTS

Progress = Callable[[str], None]

LOG_WIDTH = 120
CLEAR_LINE = "\r\x1b[2K"


class Teller:
    """Shows progress; call it with one line at a time, ``done`` before anything else is printed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.live = sys.stderr.isatty() and environ.get("TERM", "") != "dumb" and not environ.get("CI")

    def __call__(self, line: str) -> None:
        """Show ``line``: in place on a terminal, as a line of its own in a log."""
        if self.live:
            width = shutil.get_terminal_size().columns
            click.echo(CLEAR_LINE + line[: width - 1], err=True, nl=False)
        else:
            click.echo(line, err=True)

    def done(self) -> None:
        """Leave the line to others."""
        if self.live:
            click.echo(CLEAR_LINE, err=True, nl=False)


def show(report: Report, environ: Mapping[str, str]) -> None:
    """Print the report on standard output, in colour where that is wanted."""
    from flashcore_ci.cli import actions  # noqa: PLC0415 - as the next
    from flashcore_ci.report import terminal  # noqa: PLC0415 - rich is heavy

    tty = sys.stdout.isatty()
    color = not environ.get("NO_COLOR") and (tty or bool(environ.get("FORCE_COLOR"))) and environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns if tty else LOG_WIDTH
    text = terminal.render(report, width=width, color=color)
    click.echo(actions.inert(text) if actions.is_github(environ) else text, nl=False, color=color)


def present(report: Report, out: Path, *, as_json: bool, environ: Mapping[str, str]) -> None:
    """Print the report, as JSON or for people, and say where its files are."""
    if as_json:
        click.echo(encode(report), nl=False)
        return
    show(report, environ)
    click.echo(f"reports: {out}/{', '.join(REPORTS)}", err=True)
