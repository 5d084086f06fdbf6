"""The history as CSV and OpenMetrics. Cells and labels are text from outside."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection

from flashcore_ci.history import queries
from flashcore_ci.model.history import Point, Series
from flashcore_ci.model.verdict import Outcome

FORMULA = ("=", "+", "-", "@")
"""A spreadsheet runs a cell that begins so."""
VALUES = ("ms", "ms_std", "megacycles", "megacycles_std", "mhz", "mhz_std", "samples")
ANCHORED = ("anchor", "log_ratio", "standard_error", "df", "rounds")
OF_SERIES = ("suite", "workload", "machine_class", "scale")
OF_POINT = ("commit", "position", "collected_at", "standing", "code", "epoch", "outcome", *VALUES)
COLUMNS = (*OF_SERIES, *OF_POINT, *ANCHORED)
GAUGES = {
    "flashcore_ci_time_milliseconds": ("ms", "Mean time of the newest point."),
    "flashcore_ci_megacycles": ("megacycles", "Mean SM cycles of the newest point, in millions."),
    "flashcore_ci_sm_clock_megahertz": ("mhz", "Mean SM clock of the newest point."),
}


def csv_text(connection: Connection) -> Iterator[str]:
    """Yield the table, one row per point of every series, a line at a time."""
    yield _line(COLUMNS)
    for series in queries.series(connection):
        for point in queries.points(connection, series.id, standings=queries.ALL):
            at = datetime.fromtimestamp(point.collected_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            values = [at if name == "collected_at" else getattr(point, name) for name in OF_POINT]
            ratio = [getattr(point.anchored, name, None) for name in ANCHORED]
            yield _line([_cell(value) for value in (*(getattr(series, name) for name in OF_SERIES), *values, *ratio)])


def openmetrics_text(connection: Connection) -> Iterator[str]:
    """Yield the newest point of every series as gauges. Only runs that feed detection count."""
    newest: list[tuple[Series, Point]] = []
    for series in queries.series(connection):
        newest += [(series, point) for point in queries.points(connection, series.id, newest=1)]
    for name, (field, text) in GAUGES.items():
        yield from _gauge(name, text, [(series, getattr(point, field)) for series, point in newest])
    ratios = [(series, point.anchored.log_ratio if point.anchored else None) for series, point in newest]
    yield from _gauge("flashcore_ci_log_ratio_to_anchor", "log(head / anchor) of the newest point.", ratios)
    passed = [(series, float(point.outcome in {Outcome.PASS, Outcome.WAIVED})) for series, point in newest]
    yield from _gauge("flashcore_ci_passed", "1 if every check of the workload passed or is waived.", passed)
    yield "# EOF\n"


def _gauge(name: str, text: str, values: Sequence[tuple[Series, float | None]]) -> Iterator[str]:
    yield f"# TYPE {name} gauge\n# HELP {name} {text}\n"
    for series, value in values:
        if value is not None:
            pairs = (("suite", series.suite), ("workload", series.workload), ("machine_class", series.machine_class))
            labels = ",".join(f'{label}="{_escape(given)}"' for label, given in (*pairs, ("question", series.question[:12])))
            yield f"{name}{{{labels}}} {value!r}\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _line(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
