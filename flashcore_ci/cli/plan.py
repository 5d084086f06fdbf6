"""The command ``plan``."""

from __future__ import annotations

import os
from typing import Any

import click

from flashcore_ci.cli import console, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import plan
from flashcore_ci.run.request import Request


@click.command("plan")
@options.suite
@options.only
@options.as_json
def command(*, as_json: bool, **arguments: Any) -> int:
    """List every check that will be judged, and why others do not apply."""
    request = Request(out=options.DEFAULT_OUT, environ=os.environ, **arguments)
    with console.ProgressLine(os.environ) as progress:
        checks = plan.make_plan(plan.load_suite(request), request, progress)
    click.echo(plan.as_json(checks) if as_json else plan.as_text(checks), nl=False)
    return ExitCode.PASSED
