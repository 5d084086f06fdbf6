"""ncu's raw page of a report, as CSV: what a machine without ``ncu-report`` reads. It rounds to two digits."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path

from flashcore_ci.adapters.ncu import NCU_METRICS, Action
from flashcore_ci.model.reading import Measured, Reading

METRICS = tuple(dict.fromkeys(name for metric in NCU_METRICS for name in metric.sources))
DIGITS = 0.00501
"""Half of the last digit, and what binary numbers need."""
ID, KERNEL, RANGES = "ID", "Kernel Name", "thread Domain:Push/Pop_Range:"
_RANGE = re.compile(r'"<default domain>:(.*?)(?::none){6}"')
MAX_RANGES = 4096
"""Characters of a cell. The pattern takes quadratic time on a hostile one."""
_NUMBER = re.compile(r"(?:0|[1-9]\d{0,2}(?:,\d{3})*)\.\d{2}")


def argv(tool: Path, report: Path) -> tuple[str, ...]:
    """Print the page of a report. Each kernel is named ``range/kernel``, with its innermost range."""
    return (
        str(tool), "--import", str(report), "--page", "raw", "--csv", "--print-units", "base", "--print-fp",
        "--print-kernel-base", "function", "--print-nvtx-rename", "kernel", "--metrics", ",".join(METRICS),
    )  # fmt: skip


def parse(text: str) -> tuple[Action, ...]:
    """Parse the page. An empty, cut or altered page has no actions."""
    try:
        return tuple(_actions(list(csv.reader(io.StringIO(text), strict=True))))
    except (ValueError, csv.Error):
        return ()


def _actions(rows: list[list[str]]) -> Iterator[Action]:
    """Yield one action per row, after the names of the columns and their units. ValueError for another table."""
    names, units, *launches = rows
    (ranges,) = (index for index, name in enumerate(names) if name.startswith(RANGES))
    kernel = names.index(KERNEL)
    columns = [(index, name) for index, name in enumerate(names) if name in METRICS]
    for number, row in enumerate(launches):
        if len(row) != len(names) or row[names.index(ID)] != str(number) or len(row[ranges]) > MAX_RANGES:
            raise ValueError(f"row {number} is not whole")
        workload = next((name for name in _RANGE.findall(row[ranges]) if row[kernel].startswith(f"{name}/")), "")
        metrics = {name: (_value(row[index]), units[index]) for index, name in columns if row[index]}
        yield Action(workload=workload, kernel=row[kernel].removeprefix(f"{workload}/"), metrics=metrics)


def _value(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text} is not a number of this page")
    return float(text.replace(",", ""))


def shows(listed: tuple[Action, ...], actions: tuple[Action, ...]) -> bool:
    """Tell whether the page shows these actions."""
    pairs = list(zip(listed, actions, strict=False))
    return len(listed) == len(actions) and all(_is_same(there, here) for there, here in pairs)


def _is_same(listed: Action, action: Action) -> bool:
    if (listed.workload, listed.kernel) != (action.workload, action.kernel) or listed.metrics.keys() != action.metrics.keys():
        return False
    pairs = [(listed.metrics[name], action.metrics[name]) for name in action.metrics]
    return all(there[1] == here[1] and abs(there[0] - here[0]) <= DIGITS for there, here in pairs)


def is_rounded(reading: Reading, recorded: Measured) -> bool:
    """Tell whether both are the same number, but for the digits that the page omits."""
    if not isinstance(reading, Measured) or reading.unit != recorded.unit:
        return False
    tolerance = DIGITS if reading.unit == "%" else 1e-7
    return math.isclose(reading.value, recorded.value, rel_tol=1e-9, abs_tol=tolerance)
