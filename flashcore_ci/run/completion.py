"""What a shell can complete."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.suite import names as written
from flashcore_ci.suite.project import read_project


def suites() -> list[Path]:
    """List the suites of the checkout."""
    try:
        return written.suites(Path.cwd())
    except SuiteError:
        return []


def names(suite: Path | None, *, with_codes: bool = False) -> list[str]:
    """List names of ``suite`` (None: the default one). ``with_codes``: gates and reason codes."""
    codes = [str(code) for code in Code] if with_codes else []
    try:
        return [*written.names(suite or Path.cwd() / read_project(Path.cwd()).suite, gates_only=with_codes), *codes]
    except SuiteError:
        return codes
