"""The command ``explain``."""

from __future__ import annotations

from pathlib import Path

import click

from flashcore_ci.cli import answers, completion, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import hints, plan


@click.command("explain")
@click.argument("name", shell_complete=completion.targets)
@options.suite
@options.as_json
def command(*, name: str, suite: Path, as_json: bool) -> int:
    """Explain the gate or reason code NAME: what it means, and what to do when it is red.

    A reason code needs no suite.
    """
    text = hints.repeat(plan.explain(name, suite, Path.cwd()), answers.given_options(click.get_current_context()))
    return answers.finish({"name": name, "text": text}, ExitCode.PASSED, as_json=as_json, text=text)
