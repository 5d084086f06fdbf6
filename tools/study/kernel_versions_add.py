"""Add the measured versions of the kernels to a history, and print them as a table.

``python tools/study/kernel_versions_add.py FILE [--db URL]``. FILE is what ``collected`` wrote: the builds of every commit, and the
times of a sitting. A run is a commit with new code, and has the rows whose code is new. It is marked "unsigned, reviewed".
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from kernel_versions import NAMES, SUITE, WORKLOADS, code_of, specify

from flashcore_ci import __version__
from flashcore_ci.collect import resources
from flashcore_ci.history import address, database, writing
from flashcore_ci.history.rows import NewRun, rows_of
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.anchor import Pin, PinnedCode
from flashcore_ci.model.evidence import BuildEvidence, Device, Evidence, Identity, Observation, Provenance, machine_class
from flashcore_ci.model.history import Commit, Standing
from flashcore_ci.model.identity import ANCHORED, SAME_CODE, digest_of, workload_identity
from flashcore_ci.model.metrics import ANCHOR, SIDES
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured, Samples
from flashcore_ci.model.suite import Kind, Roof, Workload
from flashcore_ci.model.verdict import Origin, StalePolicy
from flashcore_ci.plan import planner
from flashcore_ci.store.codec import decode

TOLERANCE = 2e-3
"""A larger difference from the newest version's results is named."""
GATES = ("build", "spills", "local-memory", "registers", "instructions")
"""The gates that builds and times can answer."""
UNITS = {"ms": ("time/gpu/cold", "ms"), "megacycles": ("cycles/gpu/cold", "Mcycle"), "mhz": ("clock/sm", "MHz")}


def collected(folder: Path, out: Path, sitting: Path) -> None:
    """Write builds and times into one file."""
    processes = [json.loads(file.read_text(encoding="utf-8")) for file in sitting.glob("process-*.json")]
    whole = {
        "versions": json.loads((folder / "versions.json").read_text(encoding="utf-8")),
        "sitting": json.loads((sitting / "sitting.json").read_text(encoding="utf-8")),
        "processes": sorted(processes, key=lambda each: each["began"]),
    }
    out.write_bytes(lzma.compress(json.dumps(whole, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME))


class Past:
    """All versions, and what a sitting measured of them."""

    def __init__(self, file: Path) -> None:
        data = json.loads(lzma.decompress(file.read_bytes()))
        self.versions, self.sitting, self.processes = data["versions"], data["sitting"], data["processes"]
        name, uuid, driver = self.sitting["gpus"][int(self.sitting["visible"].split(",")[0])].split(", ")[:3]
        found = self.processes[0]["device"]
        self.device = Device(
            name=name, uuid=uuid, driver=driver, compute_capability=f"{found['major']}.{found['minor']}",
            multiprocessors=found["multi_processor_count"], memory=found["total_memory"], l2=found["L2_cache_size"],
        )  # fmt: skip
        self.newest = self.versions[-1]

    def new_rows(self) -> Iterator[tuple[dict[str, Any], list[tuple[Workload, str]]]]:
        """Yield each commit with the rows whose code it brought, and the name under which that was measured."""
        known: set[tuple[str, str]] = set()
        for row in self.versions:
            found = []
            for workload in WORKLOADS:
                code = code_of(row, workload)
                if code is not None and ((workload.id, code) not in known or row is self.newest):
                    known.add((workload.id, code))
                    found.append((workload, self.measured_as(workload, code)))
            if found:
                yield row, found

    def measured_as(self, workload: Workload, code: str) -> str:
        """Return the name of the version with this code that was measured, or nothing."""
        same = (row for row in self.versions if code_of(row, workload) == code)
        timed = {name for process in self.processes for name in process["rows"].get(workload.id, {})}
        return next((name for row in same if (name := f"{row['commit'][:10]}-{workload.subject}") in timed), "")

    def times(self, workload: Workload, name: str, scale: str, other: str | None = None) -> list[float]:
        """Return the medians of a version, of the processes that also have the other one."""
        rows = [process["rows"].get(workload.id, {}) for process in self.processes]
        return [row[name][scale] for row in rows if scale in row.get(name, {}) and scale in row.get(other or name, {})]

    def build(self, row: dict[str, Any], subject: str) -> BuildEvidence:
        """Return the build of one subject."""
        return decode(BuildEvidence, json.dumps(row["builds"][subject]["evidence"]).encode(), where=row["commit"])


def plan_of(row: dict[str, Any], workloads: list[Workload]) -> Plan:
    """Plan the gates that can be answered."""
    names = sorted({workload.subject for workload in workloads})
    descriptions = tuple(specify(row, name) for name in names)
    gates = [gate for gate in SUITE.gates if gate.id in GATES]
    stability = next(gate for gate in SUITE.gates if gate.id == "stability")
    for roof, scale in ((Roof.COMPUTE, "megacycles"), (Roof.MEMORY, "ms")):  # what decides. Cycles of decode follow the clock
        if any(workload.roof is roof for workload in workloads):
            gates.append(replace(stability, id=f"stability-{scale}", roofs=(roof,), metric=UNITS[scale][0]))
    suite = replace(
        SUITE,
        workloads=tuple(replace(workload, collect=(Kind.TIMING,)) for workload in workloads),
        subjects=tuple(subject for subject in SUITE.subjects if subject.name in names),
        gates=tuple(gates),
        accepts=None,
    )
    return planner.make_plan(suite, descriptions)


def run_of(past: Past, row: dict[str, Any], rows: list[tuple[Workload, str]], pin: Pin) -> NewRun:
    """Make the run of one commit."""
    plan = plan_of(row, [workload for workload, _ in rows])
    builds = {name: past.build(row, name) for name in {workload.subject for workload, _ in rows}}
    observations: list[Observation] = []
    for workload, name in rows:
        if name:
            observations += observed(past, row, workload, name, plan)
    tools = (("cuda", builds[next(iter(builds))].compiler), ("torch", past.processes[0]["torch"]))
    provenance = Provenance(
        collected_at=past.sitting["at"], device=past.device, tools=tools, commit=row["commit"], dirty=False,
        clock_policy="not locked, settled, SM clock read in the stream", version=__version__, machine_class=machine_class(past.device),
    )  # fmt: skip
    static = resources.observe(plan.descriptions, tuple(builds.values()), plan.protocol)
    sources = [
        Evidence(provenance=provenance, builds=tuple(builds.values()), observations=each)
        for each in (static, tuple(observations))
    ]
    recorded = [Source(origin=Origin(kind="recorded"), evidence=each) for each in sources]
    report = judge(
        plan,
        tuple(builds.values()),
        tuple(recorded),
        waivers=(),
        as_of=past.sitting["at"],
        stale=StalePolicy.BLOCK,
        tool=__version__,
    )
    at = int(row["at"])
    return NewRun(
        plan=plan, evidence=sources[1], verdicts=report.verdicts, outcome=report.outcome, headline=report.headline,
        commit=Commit(sha=row["commit"], committed_at=at, subject=row["subject"]), added_at=at, branch="main",
        digest=digest_of("past", row["commit"], past.sitting), standing=Standing.REVIEWED, pins=(pin,),
    )  # fmt: skip


def identity(past: Past, row: dict[str, Any], workload: Workload, kind: Kind, plan: Plan) -> Identity:
    """Return the identity of a row's code."""
    problem = next(each for each in specify(row, workload.subject).problems if each.workload == workload.id)
    found = workload_identity(kind, workload, problem, past.build(row, workload.subject), plan.protocol)
    assert found is not None
    return found


def observed(past: Past, row: dict[str, Any], workload: Workload, name: str, plan: Plan) -> Iterator[Observation]:
    """Yield the times of a version, and its rounds with the anchor. Both ran on tensors that the newest subject file made."""
    samples = [
        (metric, Samples(values=tuple(past.times(workload, name, scale)), unit=unit)) for scale, (metric, unit) in UNITS.items()
    ]
    yield Observation(
        kind=Kind.TIMING, target=workload.id, identity=identity(past, row, workload, Kind.TIMING, plan), samples=tuple(samples)
    )
    head = identity(past, row, workload, Kind.COMPARISON, plan)
    anchor = f"{past.newest['commit'][:10]}-{workload.subject}"
    if name == anchor:
        if row is past.newest:
            same = tuple((reading, Measured(value=1.0, unit="count")) for reading in (ANCHORED, SAME_CODE))
            yield Observation(kind=Kind.COMPARISON, target=workload.id, identity=head, base=head, readings=same)
        return
    base = replace(identity(past, past.newest, workload, Kind.COMPARISON, plan), subject=head.subject)
    paired = [
        (f"{side}/{metric}", Samples(values=tuple(past.times(workload, one, scale, other)), unit=unit))
        for scale, (metric, unit) in UNITS.items()
        for side, one, other in ((ANCHOR, anchor, name), (SIDES[1], name, anchor))
    ]
    readings = ((ANCHORED, Measured(value=1.0, unit="count")),)
    yield Observation(
        kind=Kind.COMPARISON, target=workload.id, identity=head, base=base, samples=tuple(paired), readings=readings
    )


def pin_of(past: Past) -> Pin:
    """Pin the newest version as the anchor of all rows."""
    codes = {}
    for workload in WORKLOADS:
        build = past.build(past.newest, workload.subject)
        found = identity(past, past.newest, workload, Kind.TIMING, plan_of(past.newest, [workload]))
        parts = {"machine_code": found.machine_code, "launcher": found.launcher, "binding": found.binding, "source": build.source}
        codes[workload.id] = PinnedCode(subject=workload.subject, **parts)
    day = past.sitting["at"][:10]
    reason = "the newest version of FlashCore's past"
    return Pin(
        suite=SUITE.name, commit=past.newest["commit"], since=day, reason=reason, owner="kernels", compiler="nvcc", codes=codes
    )


def table(past: Past, subject: str) -> Iterator[str]:
    """Yield Markdown: commit, and per row registers, spills, what it reaches, and the change to the version before."""
    workloads = [workload for workload in WORKLOADS if workload.subject == subject]
    yield " | ".join(["| version | commit", *(workload.id for workload in workloads), "what changed |"])
    yield "| --- " * (3 + len(workloads)) + "|"
    before: dict[str, str] = {}
    versions = [
        (row, {w.id: name for w, name in rows})
        for row, rows in past.new_rows()
        if rows[0][0].subject == subject or rows[-1][0].subject == subject
    ]
    for number, (row, names) in enumerate(versions, start=1):
        cells = [cell(past, row, workload, names.get(workload.id), before) for workload in workloads]
        yield " | ".join([f"| {number} | `{row['commit'][:7]}`", *cells, f"{row['subject'].partition(';')[0][:48].strip()} |"])


def cell(past: Past, row: dict[str, Any], workload: Workload, name: str | None, before: dict[str, str]) -> str:
    """Write one version of a row, and remember it."""
    if name is None:
        return ""
    entry = specify(row, workload.subject).problem(workload.id).entries[0]
    built = past.build(row, workload.subject).entry(entry)
    assert built is not None
    resources = f"{built.highest_register} / {built.spill_store_bytes + built.spill_load_bytes}"
    if not name:
        return f"{resources}, not measured"
    differs = max((process["rows"][workload.id].get(name, {}).get("difference", 0.0) for process in past.processes), default=0.0)
    resources += f", differs by {differs:.2g}" if differs > TOLERANCE else ""
    problem, memory = specify(row, workload.subject).problem(workload.id), workload.roof is Roof.MEMORY
    ms = statistics.median(past.times(workload, name, "ms"))
    shown = f"{problem.bytes / ms / 1e9:.2f} TB/s" if memory else f"{problem.flops / ms / 1e9:.0f} TFLOP/s"
    old, before[workload.id] = before.get(workload.id), name
    if old is None or old == name:
        return f"{resources}, {shown}"
    scale = "ms" if memory else "megacycles"
    pairs = zip(past.times(workload, name, scale, old), past.times(workload, old, scale, name), strict=True)
    return f"{resources}, {shown} ({100 * (1 / statistics.median(a / b for a, b in pairs) - 1):+.1f} %)"


def rest(past: Past) -> Iterator[str]:
    """Yield Markdown: all other commits by reason."""
    yield "| prefill | decode | commits |\n| --- | --- | --- |"
    first: dict[tuple[str, str], str] = {}
    groups: dict[str, list[str]] = {}
    versions = {row["commit"] for row, _ in past.new_rows()}
    for row in past.versions:
        cells, name = [], f"`{row['commit'][:7]}`"
        for subject in NAMES:
            build = row["builds"][subject]
            error = build.get("error") or (build["evidence"]["error"] or {}).get("message", "")
            codes = [code_of(row, workload) or "" for workload in WORKLOADS if workload.subject == subject]
            same = first.setdefault((subject, str(codes)), name)
            cells.append(error.replace("`", "").replace("'", "") or f"as {same}")
        if row["commit"] not in versions:
            groups.setdefault(" | ".join(cells), []).append(name)
    yield from (f"| {cells} | {', '.join(names)} |" for cells, names in groups.items())


def main() -> int:
    """Add all runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--db")
    options = parser.parse_args()
    past = Past(options.file)
    if options.db:
        url, pin = address.parse(options.db, {}), pin_of(past)
        for row, rows in past.new_rows():
            made = rows_of(run_of(past, row, rows, pin))
            print(
                row["commit"][:10],
                database.write(url, lambda connection, made=made: writing.add_run(connection, made)),
                file=sys.stderr,
            )
    for subject in NAMES:
        print("\n".join(table(past, subject)), end="\n\n")
    print("\n".join(rest(past)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
