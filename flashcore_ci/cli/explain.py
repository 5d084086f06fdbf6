"""``flashcore-ci explain``: one gate, or one reason code, in words."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path

import click

from flashcore_ci.cli import options
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import ExitCode, SuiteError, UsageError
from flashcore_ci.report import explain
from flashcore_ci.suite.loader import load


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    """Gates and reason codes, for the shell."""
    names: list[str] = list(Code)
    with contextlib.suppress(SuiteError):
        names = [*(gate.id for gate in load(context.params.get("suite") or options.DEFAULT_SUITE, root=Path.cwd()).gates), *names]
    return [name for name in names if name.startswith(incomplete)]


@click.command("explain")
@click.argument("name", shell_complete=_names)
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
