"""``flashcore-ci explain``: one gate, or one reason code, in words."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from flashcore_ci.cli import options
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import ExitCode, UsageError
from flashcore_ci.report import explain
from flashcore_ci.suite.loader import load


@click.command("explain")
@click.argument("name")
@options.suite
def command(*, name: str, suite: Path) -> int:
    """Explain the gate or reason code NAME: what it asks, of what, why, and what to do when it is red."""
    gates = {gate.id: gate for gate in load(suite, root=Path.cwd()).gates}
    if name in gates:
        click.echo(explain.render(gates[name]), nl=False)
    elif name in set(Code):
        click.echo(explain.render_code(Code(name)), nl=False)
    else:
        known = [*gates, *Code]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"{name} is neither a gate of {suite} nor a reason code{meant}", fix=f"gates: {', '.join(gates)}")
    return ExitCode.PASSED
