"""The table of kernel versions: registers, stack, spills and what each version reaches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from flashcore_ci.dashboard import page
from flashcore_ci.judge.stats.descriptive import mean
from flashcore_ci.model.dashboard import Line, Snapshot, Version
from flashcore_ci.model.history import EntryFacts, in_order
from flashcore_ci.report import formatting
from flashcore_ci.report.html.markup import Child, Markup, tag

MOST_OF_ENTRY = 8
RESOURCES = ("Registers", "Stack", "Spills", "Shared memory", "Instructions")
HEAD = ("Version", "First commit", "Day", *RESOURCES, "Reached", "Workload")
NUMBERS = (3, 4, 5, 6, 7, 8)


@dataclass(slots=True, kw_only=True)
class EntryVersion:
    """One machine code of one entry function: where it came first, and the best that a workload reached with it."""

    facts: EntryFacts
    first: int
    reached: dict[str, tuple[Line, float]] = field(default_factory=dict)


def render(snapshot: Snapshot) -> bytes:
    """Return the page: a table for each entry function, those that changed last first."""
    entries = entries_of(snapshot)
    order = _order(snapshot)
    ordered = sorted(entries.items(), key=lambda pair: (-len(pair[1]), -max(order.get(v.first, 0) for v in pair[1]), pair[0]))
    changed = [pair for pair in ordered if len(pair[1]) > 1]
    single = [pair for pair in ordered if len(pair[1]) == 1]
    content = (
        tag("h1", "Kernel versions"),
        tag("p", "A version is one machine code of an entry function. Arrows compare with the version before.", class_="soft"),
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
    runs = snapshot.runs.values()
    ordered = sorted(runs, key=lambda run: in_order(run.commit.position, run.commit.committed_at, run.collected_at, run.id))
    return {run.id: index for index, run in enumerate(ordered)}


def reached(line: Line) -> dict[str, float]:
    """Return the mean time of the shown points by code identity."""
    identities = {version.code: version.identity for version in line.versions}
    times: dict[str, list[float]] = defaultdict(list)
    for dot in line.dots:
        if dot.ms is not None and dot.code in identities:
            times[identities[dot.code]].append(dot.ms)
    return {identity: mean(values) for identity, values in times.items()}


def of_line(line: Line, snapshot: Snapshot, most: int) -> Markup:
    """Return the versions of a workload's code, the newest first. Facts are the worst of its entry functions."""
    times = reached(line)
    versions = line.versions[-most - 1 :]
    rows = [_row(line, version, before, times, snapshot) for version, before in zip(versions, (None, *versions), strict=False)]
    head = ("First commit", "Day", *RESOURCES, "Reached", "Points")
    return page.grid("Versions", head, reversed(rows[-most:]), numeric=range(2, 9))


def _row(line: Line, version: Version, before: Version | None, times: dict[str, float], snapshot: Snapshot) -> page.Cells:
    code, old = snapshot.codes.get(version.code), snapshot.codes.get(before.code) if before else None
    run = snapshot.runs.get(version.first)
    return (
        page.run_link(run, "../"),
        page.day(run.commit.committed_at or run.collected_at) if run else page.NONE,
        *resources(code.entries if code else (), old.entries if old else ()),
        page.rate(line, times.get(version.identity)),
        f"{version.runs:,}",
    )


def resources(now: Sequence[EntryFacts], before: Sequence[EntryFacts]) -> Iterator[Child]:
    """Yield the cells of the worst entry function, with an arrow where it differs from before."""
    for name, unit in (("registers", ""), ("stack", " B"), ("spills", " B"), ("shared", " B"), ("instructions", "")):
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
        "stack": entry.stack_bytes,
        "spills": entry.spill_store_bytes + entry.spill_load_bytes,
        "shared": entry.static_shared_bytes + entry.dynamic_shared_bytes,
        "instructions": sum(count for _, count in entry.opcodes),
    }[name]


def _entry(symbol: str, found: Sequence[EntryVersion], snapshot: Snapshot) -> Markup:
    numbered = list(enumerate(found, start=1))[-MOST_OF_ENTRY:]
    pairs = zip(numbered, (None, *(version for _, version in numbered)), strict=False)
    rows = [_entry_row(f"v{number}", version, before, snapshot) for (number, version), before in pairs]
    title = tag("h2", page.shown(symbol, 160), class_="mono symbol")
    return tag("section", title, page.grid(f"Versions of {page.shown(symbol, 60)}", HEAD, reversed(rows), numeric=NUMBERS))


def _singles(single: Iterable[tuple[str, Sequence[EntryVersion]]], snapshot: Snapshot) -> Markup:
    rows = [_entry_row(page.shown(symbol, 90), found[0], None, snapshot) for symbol, found in single]
    table = page.grid("Entry functions with one version", ("Entry function", *HEAD[1:]), rows, numeric=NUMBERS)
    return page.section("single", f"{formatting.plural(len(rows), 'entry function')} with one version", table)


def _entry_row(name: str, version: EntryVersion, before: EntryVersion | None, snapshot: Snapshot) -> page.Cells:
    run = snapshot.runs.get(version.first)
    line, ms = best(version)
    return (
        page.mono(name),
        page.run_link(run),
        page.day(run.commit.committed_at or run.collected_at) if run else page.NONE,
        *resources((version.facts,), (before.facts,) if before else ()),
        page.rate(line, ms) if line else page.NONE,
        page.link_of(line) if line else page.NONE,
    )


def best(version: EntryVersion) -> tuple[Line | None, float]:
    """Return the workload with the highest rate, and its time."""
    rated = [(line.flops or line.bytes or 0.0) / ms for line, ms in version.reached.values()]
    if not rated:
        return None, 0.0
    return list(version.reached.values())[rated.index(max(rated))]
