"""The command ``dashboard``."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import click

from flashcore_ci.cli import answers, options
from flashcore_ci.cli.extras import extra
from flashcore_ci.cli.history import db
from flashcore_ci.model.errors import ExitCode

PORT = 8765


@click.group("dashboard")
def command() -> None:
    """Show the history as web pages. Needs the extra `history`."""


@command.command("build")
@db
@options.suite
@click.option("--out", required=True, metavar="DIR", type=options.FILE, help="A new folder, or one that this command wrote.")
@options.as_json
def build(*, db: str, suite: Path, out: Path, as_json: bool) -> int:
    """Write the pages as a static site, for any web server or GitHub Pages."""
    with extra():
        from flashcore_ci.run import dashboard  # noqa: PLC0415 - needs the extra
    found = dashboard.build(db, os.environ, suite, out)
    click.echo(f"{found['files']} files, {found['bytes'] / 1e6:.1f} MB in {out}", err=True)
    return answers.finish({**found, "out": str(out)}, ExitCode.PASSED, as_json=as_json)


@command.command("serve")
@db
@options.suite
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="0 takes any free port.")
@options.as_json
def serve(*, db: str, suite: Path, port: int, as_json: bool) -> int:
    """Serve the same pages from the database, to this machine only. Ctrl-C ends it."""
    with extra():
        from flashcore_ci.run import dashboard_server  # noqa: PLC0415
    with dashboard_server.start(db, os.environ, suite, port) as server:
        click.echo(f"http://{server.host}/", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return answers.finish({"address": f"http://{server.host}/"}, ExitCode.PASSED, as_json=as_json)


@command.command("digest")
@db
@options.suite
@click.option("--days", type=click.IntRange(1, 366), default=7, show_default=True, help="How many days.")
@options.as_json
def digest(*, db: str, suite: Path, days: int, as_json: bool) -> int:
    """Write what changed in the last days as Markdown, to standard output."""
    with extra():
        from flashcore_ci.run import dashboard  # noqa: PLC0415
    text = dashboard.weekly(db, os.environ, suite, days)
    if as_json:
        return answers.finish({"markdown": text}, ExitCode.PASSED, as_json=True)
    sys.stdout.write(text)
    return ExitCode.PASSED
