"""Progress on standard error, results on standard output."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TextIO

import click

from flashcore_ci.cli import eta
from flashcore_ci.model.text import inert, visible
from flashcore_ci.model.verdict import Report
from flashcore_ci.run import place, streams
from flashcore_ci.run.durations import Durations
from flashcore_ci.run.host import is_stopping

LOG_WIDTH = 120
CLEAR_LINE = "\r\x1b[2K"
TICK_SECONDS = 1.0


class ProgressLine:
    """One changing line on a terminal, plain lines in a log."""

    def __init__(self, environ: Mapping[str, str], *, now: Callable[[], float] = time.monotonic) -> None:
        self.live = sys.stderr.isatty() and environ.get("TERM", "") != "dumb" and not environ.get("CI")
        self._now = now
        self._durations = Durations.at_home(environ, eta.command_key())
        self._estimate = eta.TimeLeft(before=self._durations.load())
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Clear the line. Save the durations if all ended well."""
        if error is None and not is_stopping():
            self._durations.save(self._estimate.finish(self._now()))
        with self._writing:
            self._over.set()
            if self._ticker is not None:
                streams.write_trusted(CLEAR_LINE, err=True)

    def __call__(self, line: str) -> None:
        """Show ``line``, in a log with the time left once per stage."""
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

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._writing:
            if self._over.is_set():
                return
            left = eta.describe(self._estimate.left(self._now()))
            text = f"{self._estimate.line} · {left}" if left else self._estimate.line
            streams.write_trusted(CLEAR_LINE, err=True)
            click.echo(visible(text)[: width_of(sys.stderr) - 1].replace("\n", " "), err=True, nl=False)


def width_of(stream: TextIO) -> int:
    """Return the columns of a terminal, else ``LOG_WIDTH``."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or LOG_WIDTH
    except (OSError, ValueError):
        return LOG_WIDTH


def show(report: Report, environ: Mapping[str, str], *, on_stderr: bool = False) -> None:
    """Print the report."""
    from flashcore_ci.run import reports  # noqa: PLC0415 - slow, and not every command reports

    stream = sys.stderr if on_stderr else sys.stdout
    tty = stream.isatty()
    color = not environ.get("NO_COLOR") and (tty or bool(environ.get("FORCE_COLOR"))) and environ.get("TERM") != "dumb"
    text = reports.terminal_text(report, width=width_of(stream) if tty else LOG_WIDTH, color=color)
    streams.write_trusted(inert(text) if streams.is_github(environ) else text, err=on_stderr)


def show_results(report: Report, out: Path, *, as_json: bool, environ: Mapping[str, str]) -> None:
    """Print the report. ``as_json`` keeps standard output for JSON."""
    from flashcore_ci.run import reports  # noqa: PLC0415 - slow, and not every command reports

    if as_json:
        click.echo(reports.as_json(report), nl=False)
    show(report, environ, on_stderr=as_json)
    click.echo(f"reports: {place.seen_from_start(out)}/{', '.join(reports.FILES)}", err=True)
