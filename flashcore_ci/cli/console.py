"""The console: progress on standard error, results on standard output.

A terminal gets one line that changes. A log gets plain lines.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

import click

from flashcore_ci.cli import eta
from flashcore_ci.model.verdict import Report
from flashcore_ci.run import github, reports
from flashcore_ci.run.durations import Durations
from flashcore_ci.run.interrupts import is_stopping

LOG_WIDTH = 120
CLEAR_LINE = "\r\x1b[2K"
TICK_SECONDS = 1.0


class ProgressLine:
    """Shows progress and the time that is left. Call it with one line at a time.

    Call ``done`` before anything else is printed. The end of the command does it too.
    """

    def __init__(self, environ: Mapping[str, str], *, now: Callable[[], float] = time.monotonic) -> None:
        self.live = sys.stderr.isatty() and environ.get("TERM", "") != "dumb" and not environ.get("CI")
        self._now = now
        self._durations = Durations.at_home(environ, eta.command_key())
        self._estimate = eta.Estimate(before=self._durations.load())
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None
        context = click.get_current_context(silent=True)
        if context is not None:
            context.call_on_close(self._stop)

    def __call__(self, line: str) -> None:
        """Show ``line``. A log also gets the time that is left when a stage begins."""
        with self._writing:
            is_new = self._estimate.enter(line, self._now())
            if not self.live:
                left = eta.describe(self._estimate.left(self._now())) if is_new else ""
                click.echo(f"{line} ({left})" if left else line, err=True)
                return
        self._draw()
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()

    def done(self) -> None:
        """Clear the line, and remember how long every stage took."""
        if not self._over.is_set() and not is_stopping():
            self._durations.save(self._estimate.finish(self._now()))
        self._stop()

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._writing:
            if self._over.is_set():
                return
            left = eta.describe(self._estimate.left(self._now()))
            text = f"{self._estimate.line} · {left}" if left else self._estimate.line
            click.echo(CLEAR_LINE + text[: width_of(sys.stderr) - 1], err=True, nl=False)

    def _stop(self) -> None:
        with self._writing:
            is_drawn = self._ticker is not None and not self._over.is_set()
            self._over.set()
            if is_drawn:
                click.echo(CLEAR_LINE, err=True, nl=False)


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal that ``stream`` writes to, else ``LOG_WIDTH``."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or LOG_WIDTH
    except (OSError, ValueError):
        return LOG_WIDTH


def show(report: Report, environ: Mapping[str, str], *, on_stderr: bool = False) -> None:
    """Print the report, in colour where that is wanted."""
    stream = sys.stderr if on_stderr else sys.stdout
    tty = stream.isatty()
    color = not environ.get("NO_COLOR") and (tty or bool(environ.get("FORCE_COLOR"))) and environ.get("TERM") != "dumb"
    text = reports.terminal_text(report, width=width_of(stream) if tty else LOG_WIDTH, color=color)
    click.echo(github.inert(text) if github.is_github(environ) else text, nl=False, color=color, err=on_stderr)


def show_results(report: Report, out: Path, *, as_json: bool, environ: Mapping[str, str]) -> None:
    """Print the report and the names of its files. With ``as_json`` standard output is JSON, and the rest goes to stderr."""
    if as_json:
        click.echo(reports.as_json(report), nl=False)
    show(report, environ, on_stderr=as_json)
    click.echo(f"reports: {out}/{', '.join(reports.FILES)}", err=True)
