"""What people see while something runs: progress on standard error, results on standard output.

A terminal gets one line that changes; a log gets plain lines and no spinner.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

import click

from flashcore_ci.adapters import clock, process
from flashcore_ci.cli import durations
from flashcore_ci.cli.eta import Remaining, about
from flashcore_ci.model.verdict import Report
from flashcore_ci.store.claim import REPORTS
from flashcore_ci.store.codec import encode

LOG_WIDTH = 120
CLEAR_LINE = "\r\x1b[2K"
TICK_SECONDS = 1.0


class Teller:
    """Shows progress and the time that is left; call it with one line at a time, ``done`` before anything else is printed.

    It is also done when the command ends, in whatever way.
    """

    def __init__(self, environ: Mapping[str, str], *, now: Callable[[], float] = clock.monotonic) -> None:
        self.live = sys.stderr.isatty() and environ.get("TERM", "") != "dumb" and not environ.get("CI")
        self._now = now
        self._memory = durations.Memory.of_command(environ)
        self._remaining = Remaining(before=self._memory.recall())
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._ticking: threading.Thread | None = None
        context = click.get_current_context(silent=True)
        if context is not None:
            context.call_on_close(self._leave)

    def __call__(self, line: str) -> None:
        """Show ``line``: in place on a terminal, as a line of its own in a log, there with the time left when a stage begins."""
        with self._writing:
            began = self._remaining.enter(line, self._now())
            if not self.live:
                left = about(self._remaining.left(self._now())) if began else ""
                click.echo(f"{line} ({left})" if left else line, err=True)
                return
        self._draw()
        if self._ticking is None:
            self._ticking = threading.Thread(target=self._tick, daemon=True)
            self._ticking.start()

    def done(self) -> None:
        """Leave the line to others, and remember how long everything took."""
        if not self._over.is_set() and not process.stopping():
            self._memory.keep(self._remaining.finished(self._now()))
        self._leave()

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._writing:
            if self._over.is_set():
                return
            left = about(self._remaining.left(self._now()))
            text = f"{self._remaining.line} · {left}" if left else self._remaining.line
            click.echo(CLEAR_LINE + text[: width_of(sys.stderr) - 1], err=True, nl=False)

    def _leave(self) -> None:
        with self._writing:
            shown = self._ticking is not None and not self._over.is_set()
            self._over.set()
            if shown:
                click.echo(CLEAR_LINE, err=True, nl=False)


def width_of(stream: TextIO) -> int:
    """The columns of the terminal that ``stream`` writes to, or what a log is given."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or LOG_WIDTH
    except (OSError, ValueError):
        return LOG_WIDTH


def show(report: Report, environ: Mapping[str, str], *, aside: bool = False) -> None:
    """Print the report on standard output (``aside``: on standard error), in colour where that is wanted."""
    from flashcore_ci.report import terminal  # noqa: PLC0415 - rich is heavy
    from flashcore_ci.run import github  # noqa: PLC0415 - as the next

    stream = sys.stderr if aside else sys.stdout
    tty = stream.isatty()
    color = not environ.get("NO_COLOR") and (tty or bool(environ.get("FORCE_COLOR"))) and environ.get("TERM") != "dumb"
    text = terminal.render(report, width=width_of(stream) if tty else LOG_WIDTH, color=color)
    click.echo(github.inert(text) if github.is_github(environ) else text, nl=False, color=color, err=aside)


def present(report: Report, out: Path, *, as_json: bool, environ: Mapping[str, str]) -> None:
    """Print the report, and say where its files are. ``as_json``: standard output is JSON, and all for people goes aside."""
    if as_json:
        click.echo(encode(report), nl=False)
    show(report, environ, aside=as_json)
    click.echo(f"reports: {out}/{', '.join(REPORTS)}", err=True)
