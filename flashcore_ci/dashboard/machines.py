"""The machines, and how much their runs scatter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from flashcore_ci.dashboard import page
from flashcore_ci.model.dashboard import Dot, Line, Snapshot
from flashcore_ci.report.html.markup import Markup, tag

NEWEST = 200
"""Points of a line that count."""
LOUDEST = 15
HEAD = ("Machine", "GPU", "Runs shown", "Newest run", "Drivers", "Clock", "Scatter", "Error of a ratio")
NUMBERS = (2, 5, 6, 7)


def render(snapshot: Snapshot) -> bytes:
    """Return the page."""
    content = (
        tag("h1", "Machines and their noise"),
        page.paragraphs(
            "Scatter is the standard deviation between fresh processes of one run, relative to their mean. "
            "The error of a ratio is what limits how small a change can be seen. Both are medians over workloads.",
            style="soft",
        ),
        page.section("machines", "Machines", page.grid("Machines", HEAD, _machines(snapshot), numeric=NUMBERS)),
        page.section("epochs", "Epochs", _epochs(snapshot)),
        page.section("loudest", "The workloads that scatter most", _loudest(snapshot)),
    )
    return page.render("machines.html", "Machines and their noise", *content, now=snapshot.now)


def _machines(snapshot: Snapshot) -> Iterator[page.Cells]:
    runs = {number: run for number, run in snapshot.runs.items() if run.machine}
    dots: dict[int, list[Dot]] = defaultdict(list)
    for dot in (dot for line in snapshot.lines for dot in line.dots[-NEWEST:] if dot.run in runs):
        dots[runs[dot.run].machine.id].append(dot)  # type: ignore[union-attr]
    for uuid, name in dict.fromkeys((machine.uuid, machine.name) for machine in snapshot.machines):
        ids = {machine.id for machine in snapshot.machines if (machine.uuid, machine.name) == (uuid, name)}
        mine = [run for run in runs.values() if run.machine and run.machine.id in ids]
        here = [dot for number in ids for dot in dots[number]]
        drivers = sorted({page.shown(run.driver, 20) for run in mine})
        clocks = [dot.mhz for dot in here if dot.mhz]
        yield (
            page.mono(page.shown(uuid[:16])),
            *(page.shown(name), f"{len(mine):,}"),
            page.moment(max(run.collected_at for run in mine)) if mine else page.NONE,
            ", ".join(drivers) or page.NONE,
            f"{median(clocks):,.0f} MHz" if clocks else page.NONE,
            _share(_spread(here)),
            _share([dot.error for dot in here if dot.error]),
        )


def _epochs(snapshot: Snapshot) -> Markup:
    used: dict[int, list[int]] = defaultdict(list)
    for line in snapshot.lines:
        for dot in line.dots:
            if dot.epoch is not None:
                used[dot.epoch].append(snapshot.runs[dot.run].collected_at)
    rows = (
        (
            page.shown(snapshot.epochs[number].label),
            page.mono(page.shown(snapshot.epochs[number].collector[: page.SHORT])),
            *(page.day(min(times)), page.day(max(times)), f"{len(times):,}"),
        )
        for number, times in sorted(used.items(), key=lambda pair: -max(pair[1]))
        if number in snapshot.epochs
    )
    head = ("Conditions", "Collector", "First", "Last", "Points shown")
    note = tag("p", "Absolute numbers of one epoch may be compared. A new epoch is not an alert.", class_="soft")
    return tag("div", note, page.grid("Epochs", head, rows, numeric=(4,)))


def _loudest(snapshot: Snapshot) -> Markup:
    spread = [(line, found) for line in snapshot.lines if (found := scatter(line)) is not None]
    rows = (
        (page.link_of(line), f"{100 * found:.3f} %", f"{min(NEWEST, len(line.dots)):,}")
        for line, found in sorted(spread, key=lambda pair: -pair[1])[:LOUDEST]
    )
    return page.grid("Workloads", ("Workload", "Scatter", "Points"), rows, numeric=(1, 2))


def scatter(line: Line) -> float | None:
    """Return the median scatter of the newest points."""
    found = _spread(line.dots[-NEWEST:])
    return median(found) if found else None


def _spread(dots: Sequence[Dot]) -> list[float]:
    return [dot.std / dot.value for dot in dots if dot.value and dot.std is not None]


def _share(values: list[float]) -> str:
    return f"{100 * median(values):.3f} %" if values else page.NONE
