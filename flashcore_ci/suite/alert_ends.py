"""What a bisection needs of an alert's file (``alerts/ID.toml`` next to the suite)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.suite.anchors import Commit
from flashcore_ci.suite.loader import read_document
from flashcore_ci.suite.problems import Problems
from flashcore_ci.suite.tables import Finite, Table, Text

FOLDER = "alerts"


class AlertedTable(Table):
    """``[[series]]``: how much slower (%) a workload became."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)
    workload: Text
    percent: Finite
    standard_error: Finite


class EndsTable(Table):
    """The commits of an alert, and its series."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)
    commit: Commit
    last_good: Commit
    series: Annotated[list[AlertedTable], Field(min_length=1)]


def ends_of(suite: Path, alert: str, workload: str | None) -> tuple[str, str, str] | None:
    """Return the clearest workload of an alert, its last good commit and its first bad one. None without such a file."""
    files = [file for file in sorted((suite.parent / FOLDER).glob("*.toml")) if alert and file.stem.startswith(alert)]
    if len(files) > 1:
        raise UsageError(f"{len(files)} alerts begin with {alert}", fix=f"give one of them, as {files[0].stem}")
    if not files:
        return None
    problems = Problems(str(files[0]))
    table = problems.read(EndsTable, read_document(files[0]), "")
    if table is None:
        raise SuiteError(tuple(problems.lines), fix="give --workload, --good and --bad")
    parts = [part for part in table.series if workload in {None, part.workload}]
    if not parts:
        raise UsageError(f"{files[0]} does not name the workload {workload}", fix="omit --workload")
    clearest = max(parts, key=lambda part: abs(part.percent) / (part.standard_error or 1.0))
    return clearest.workload, table.last_good, table.commit
