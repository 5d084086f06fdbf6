"""``flashcore-ci plan``: what will be judged."""

from __future__ import annotations

import os
from typing import Any

import click

from flashcore_ci.cli import console, listing, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import gate
from flashcore_ci.run.request import Request


@click.command("plan")
@options.suite
@options.only
@options.as_json
def command(*, as_json: bool, **asked: Any) -> int:
    """List every check that will be judged, and why others do not apply."""
    teller = console.Teller(os.environ)
    request = Request(out=options.DEFAULT_OUT, environ=os.environ, **asked)
    plan = gate.planned(gate.suite_of(request), request, teller)
    teller.done()
    click.echo(listing.as_json(plan) if as_json else listing.as_text(plan), nl=False)
    return ExitCode.PASSED
