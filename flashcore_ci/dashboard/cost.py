"""What a million calls cost at a price of a GPU, and what a regression costs per day."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flashcore_ci.dashboard import changes, overview, page
from flashcore_ci.dashboard.changes import Status
from flashcore_ci.model.dashboard import Snapshot
from flashcore_ci.report.html.markup import Child, tag

PRICE, CALLS = 2.5, 100.0
"""US dollars per GPU hour, and million calls per day: examples that the reader replaces."""
MS_PER_HOUR = 3_600_000.0
HEAD = ("Workload", "One call", "A million calls", "Per day", "Change", "The change costs per day")
NUMBERS = (1, 2, 3, 4, 5)


def render(snapshot: Snapshot) -> bytes:
    """Return the page. Its figures are for the examples, and the script replaces them."""
    inputs = (
        ("price", "Price of a GPU hour, in dollars", PRICE, "0.01"),
        ("calls", "Calls per day of each workload, in millions", CALLS, "1"),
    )
    fields = (
        (tag("label", text, for_=name), tag("input", id=name, type="number", min="0", step=step, value=f"{given:g}"))
        for name, text, given, step in inputs
    )
    note = "One GPU runs one call at a time. The time is that of the newest run, and the change is that of the overview."
    content = (
        tag("h1", "Cost"),
        tag("p", note, class_="soft"),
        tag("div", *(tag("p", *field, class_="choice") for field in fields), class_="choices"),
        page.grid("Cost", HEAD, _rows(snapshot), numeric=NUMBERS, style="cost"),
    )
    return page.render("cost.html", "Cost", *content, now=snapshot.now)


def _rows(snapshot: Snapshot) -> Iterator[page.Cells]:
    rows = [row for row in overview.rows_of(snapshot) if row.line.dots[-1].ms is not None]
    costs = [(row, daily(row.line.dots[-1].ms or 0.0, _size(row.change))) for row in rows]
    for row, (_, extra) in sorted(costs, key=lambda pair: (-abs(pair[1][1]), -(pair[0].line.dots[-1].ms or 0.0))):
        ms = row.line.dots[-1].ms or 0.0
        million, _ = daily(ms, 0.0, calls=1.0)
        per_day, _ = daily(ms, 0.0)
        change = _size(row.change)
        yield (
            *(page.link_of(row.line), f"{ms:.4g} ms"),
            _cell(million, ms, 0.0, "million"),
            _cell(per_day, ms, 0.0, "day"),
            page.percent(change) if change else page.NONE,
            _cell(extra, ms, change, "extra") if change else page.NONE,
        )


def _size(change: changes.Change) -> float:
    return (change.estimate or 0.0) if change.status in {Status.REGRESSED, Status.IMPROVED} else 0.0


def daily(ms: float, change: float, *, calls: float = CALLS, price: float = PRICE) -> tuple[float, float]:
    """Return the dollars of ``calls`` million calls, and how many of them are due to the change."""
    cost = ms * calls * 1e6 / MS_PER_HOUR * price
    return cost, cost * -math.expm1(-change)


def dollars(amount: float) -> str:
    """Write an amount."""
    sign = page.MINUS if amount < 0 else ""
    return f"{sign}${abs(amount):,.2f}"


def _cell(amount: float, ms: float, change: float, kind: str) -> Child:
    return tag("span", dollars(amount), data_ms=f"{ms:.6g}", data_change=f"{change:.6g}", data_cost=kind)
