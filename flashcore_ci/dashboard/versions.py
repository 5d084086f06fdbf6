"""The table of kernel versions: registers, stack, spills and what each version reaches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from flashcore_ci.dashboard import page
from flashcore_ci.judge.stats.descriptive import mean
from flashcore_ci.model.dashboard import Dot, Line, Snapshot, Version
from flashcore_ci.model.history import EntryFacts, in_order
from flashcore_ci.report import formatting
from flashcore_ci.report.html.markup import Child, Markup, tag

NEWEST = 8
INTRODUCTION = (
    "A version is one machine code of an entry function. Arrows compare with the version before. "
    "Rates of other machines and days do not compare, and ratios to the anchor do."
)
RESOURCES = ("Registers", "Highest used", "Stack", "Spills", "Shared memory", "Instructions")
HEAD = ("Version", "First commit", "Day", *RESOURCES, "Reached", "To the anchor")
NUMBERS = range(3, 11)
Level = tuple[float, float | None]
"""Time, and log(version / anchor) where it was measured."""


@dataclass(slots=True, kw_only=True)
class EntryVersion:
    """One machine code of one entry function: where it came first, and the time of each workload with it."""

    facts: EntryFacts
    first: int
    reached: dict[str, tuple[Line, Level]] = field(default_factory=dict)


def render(snapshot: Snapshot) -> bytes:
    """Return the page: a table for each entry function, those that changed last first."""
    entries = entries_of(snapshot)
    order = _order(snapshot)
    ordered = sorted(entries.items(), key=lambda pair: (-len(pair[1]), -max(order.get(v.first, 0) for v in pair[1]), pair[0]))
    changed = [pair for pair in ordered if len(pair[1]) > 1]
    single = [pair for pair in ordered if len(pair[1]) == 1]
    content = (
        tag("h1", "Kernel versions"),
        tag("p", INTRODUCTION, class_="soft"),
        *(_entry(symbol, found, snapshot) for symbol, found in changed),
        _singles(single, snapshot) if single else None,
        None if entries else tag("p", "No run has facts about code yet."),
    )
    return page.render("versions.html", "Kernel versions", *content, now=snapshot.now)


def entries_of(snapshot: Snapshot) -> dict[str, list[EntryVersion]]:
    """Return the versions of every entry function, the oldest first."""
    found: dict[str, dict[str, EntryVersion]] = defaultdict(dict)
    order = _order(snapshot)
    for line in snapshot.lines:
        times = reached(line)
        for version in line.versions:
            code = snapshot.codes.get(version.code)
            for entry in code.entries if code else ():
                known = found[entry.symbol].setdefault(entry.machine_code, EntryVersion(facts=entry, first=version.first))
                if order.get(version.first, 0) < order.get(known.first, 0):
                    known.first = version.first
                if version.identity in times:
                    known.reached[line.key] = (line, times[version.identity])
    return {symbol: sorted(each.values(), key=lambda v: order.get(v.first, 0)) for symbol, each in found.items()}


def _order(snapshot: Snapshot) -> dict[int, int]:
    """Number the runs in the order of their commits: one sitting may have measured many of them."""
    runs = sorted(snapshot.runs.values(), key=lambda run: run.digest, reverse=True)
    ordered = sorted(runs, key=lambda run: in_order(run.commit.position, run.commit.committed_at, run.collected_at))
    return {run.id: index for index, run in enumerate(ordered)}


def reached(line: Line) -> dict[str, Level]:
    """Return the means of the shown points by code identity."""
    identities = {version.code: version.identity for version in line.versions}
    timed: dict[str, list[Dot]] = defaultdict(list)
    for dot in line.dots:
        if dot.ms is not None and dot.code in identities:
            timed[identities[dot.code]].append(dot)
    ratios = {identity: [dot.ratio for dot in dots if dot.ratio is not None] for identity, dots in timed.items()}
    return {
        identity: (mean([dot.ms or 0.0 for dot in dots]), mean(ratios[identity]) if ratios[identity] else None)
        for identity, dots in timed.items()
    }


def _cells(line: Line | None, level: Level | None) -> tuple[str, str]:
    ms, ratio = level or (None, None)
    return page.rate(line, ms) if line else page.NONE, page.percent(ratio)


def of_line(line: Line, snapshot: Snapshot, most: int) -> Markup:
    """Return the versions of a workload's code, the newest first. Facts are the worst of its entry functions."""
    times = reached(line)
    versions = line.versions[-most - 1 :]
    rows = [_row(line, version, before, times, snapshot) for version, before in zip(versions, (None, *versions), strict=False)]
    head = (*HEAD[1:], "Points")
    return page.grid("Versions", head, reversed(rows[-most:]), numeric=range(2, 11))


def _row(line: Line, version: Version, before: Version | None, times: dict[str, Level], snapshot: Snapshot) -> page.Cells:
    code, old = snapshot.codes.get(version.code), snapshot.codes.get(before.code) if before else None
    run = snapshot.runs.get(version.first)
    return (
        page.run_link(run, "../"),
        page.day(run.commit.committed_at or run.collected_at) if run else page.NONE,
        *resources(code.entries if code else (), old.entries if old else ()),
        *_cells(line, times.get(version.identity)),
        f"{version.runs:,}",
    )


def resources(now: Sequence[EntryFacts], before: Sequence[EntryFacts]) -> Iterator[Child]:
    """Yield the cells of the worst entry function, with an arrow where it differs from before."""
    for name, unit in (
        ("registers", ""),
        ("highest", ""),
        ("stack", " B"),
        ("spills", " B"),
        ("shared", " B"),
        ("instructions", ""),
    ):
        value, old = (max((_fact(entry, name) for entry in entries), default=None) for entries in (now, before))
        if value is None:
            yield page.NONE
        elif old is None or old == value:
            yield f"{value:,}{unit}"
        else:
            style = "regressed" if value > old and name in {"stack", "spills"} else "moved"
            yield tag("span", f"{'▲' if value > old else '▼'} {value:,}{unit}", class_=style, title=f"before: {old:,}")


def _fact(entry: EntryFacts, name: str) -> int:
    return {
        "registers": entry.registers,
        "highest": entry.highest_register,
        "stack": entry.stack_bytes,
        "spills": entry.spill_store_bytes + entry.spill_load_bytes,
        "shared": entry.static_shared_bytes + entry.dynamic_shared_bytes,
        "instructions": sum(count for _, count in entry.opcodes),
    }[name]


def _entry(symbol: str, found: Sequence[EntryVersion], snapshot: Snapshot) -> Markup:
    line = common(found)
    numbered = list(enumerate(found, start=1))
    pairs = zip(numbered, (None, *found), strict=False)
    rows = [_entry_row(f"v{number}", version, before, line, snapshot) for (number, version), before in pairs][::-1]
    label = f"ersions of {page.shown(symbol, 60)}"
    grids = [
        page.grid(name + label, HEAD, part, numeric=NUMBERS) for name, part in (("V", rows[:NEWEST]), ("Older v", rows[NEWEST:]))
    ]
    return tag(
        "section",
        tag("h2", page.shown(symbol, 160), class_="mono symbol"),
        tag("p", "Reached on ", page.link_of(line), class_="soft") if line else None,
        grids[0],
        page.folded(formatting.plural(len(rows) - NEWEST, "older version"), grids[1]) if len(rows) > NEWEST else None,
    )


def _singles(single: Iterable[tuple[str, Sequence[EntryVersion]]], snapshot: Snapshot) -> Markup:
    lines = [common(found) for _, found in single]
    rows = [
        (*_entry_row(page.shown(symbol, 90), found[0], None, line, snapshot), page.link_of(line) if line else page.NONE)
        for (symbol, found), line in zip(single, lines, strict=True)
    ]
    table = page.grid("Entry functions with one version", ("Entry function", *HEAD[1:], "Workload"), rows, numeric=NUMBERS)
    return page.section("single", f"{formatting.plural(len(rows), 'entry function')} with one version", table)


def _entry_row(
    name: str, version: EntryVersion, before: EntryVersion | None, line: Line | None, snapshot: Snapshot
) -> page.Cells:
    run = snapshot.runs.get(version.first)
    _, level = version.reached.get(line.key, (None, None)) if line else (None, None)
    return (
        page.mono(name),
        page.run_link(run),
        page.day(run.commit.committed_at or run.collected_at) if run else page.NONE,
        *resources((version.facts,), (before.facts,) if before else ()),
        *_cells(line, level),
    )


def common(found: Sequence[EntryVersion]) -> Line | None:
    """Return the workload that most versions were measured with. Of several, the one with the highest rate."""
    counted: dict[str, tuple[int, float, Line]] = {}
    for version in found:
        for key, (line, (ms, _)) in version.reached.items():
            count, rate, _ = counted.get(key, (0, 0.0, line))
            counted[key] = (count + 1, max(rate, (line.flops or line.bytes or 0.0) / ms), line)
    return max(counted.values(), key=lambda each: each[:2])[2] if counted else None
