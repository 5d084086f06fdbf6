"""One gate or one reason code in words."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.report import explain as text
from flashcore_ci.suite.loader import load


def explain(name: str, suite: Path, root: Path) -> str:
    """Explain the reason code or gate ``name``. Only a gate needs the suite. UsageError when it is neither."""
    if name in set(Code):
        return text.render_code(Code(name))
    gates = {gate.id: gate for gate in load(suite, root=root).gates}
    if name in gates:
        return text.render(gates[name])
    similar = difflib.get_close_matches(name, [*gates, *Code], n=1, cutoff=0.5)
    meant = f"; did you mean {similar[0]}?" if similar else ""
    known = f"gates: {', '.join(gates)}"
    raise UsageError(
        f"{name} is neither a gate of {suite} nor a reason code{meant}\n{known}",
        fix=f"flashcore-ci explain {similar[0] if similar else next(iter(gates))}",
    )


def names(suite: Path, root: Path) -> list[str]:
    """List the gates, if the suite can be read, and the reason codes."""
    gates: list[str] = []
    with contextlib.suppress(SuiteError):
        gates = [gate.id for gate in load(suite, root=root).gates]
    return [*gates, *Code]
