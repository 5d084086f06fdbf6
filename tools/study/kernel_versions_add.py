"""Add the measured versions of the kernels to a history.

``python tools/study/kernel_versions_add.py FILE --db URL``. FILE has the builds of every commit, and the times of sittings. A run is a
commit with new code in one sitting, and has the rows whose code is new. It is marked "unsigned, reviewed".
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "detectors"))
from kernel_versions import SUITE, WORKLOADS, specify
from kernel_versions_past import Past, Recording

from flashcore_ci import __version__
from flashcore_ci.collect import resources
from flashcore_ci.history import address, database, writing
from flashcore_ci.history.rows import NewRun, rows_of
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.anchor import Pin, PinnedCode
from flashcore_ci.model.evidence import Evidence, Identity, Observation, Provenance, machine_class
from flashcore_ci.model.history import Commit, Standing
from flashcore_ci.model.identity import ANCHORED, SAME_CODE, digest_of, workload_identity
from flashcore_ci.model.metrics import ANCHOR, SIDES
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured, Samples
from flashcore_ci.model.suite import Kind, Roof, Workload
from flashcore_ci.model.verdict import Origin, StalePolicy
from flashcore_ci.plan import planner

GATES = ("build", "spills", "local-memory", "registers", "instructions")
"""The gates that builds and times can answer."""
UNITS = {"ms": ("time/gpu/cold", "ms"), "megacycles": ("cycles/gpu/cold", "Mcycle"), "mhz": ("clock/sm", "MHz")}


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


def run_of(past: Past, recording: Recording, row: dict[str, Any], rows: list[tuple[Workload, str]], pin: Pin) -> NewRun:
    """Make the run of one commit in one sitting."""
    plan = plan_of(row, [workload for workload, _ in rows])
    builds = {name: past.build(row, name) for name in {workload.subject for workload, _ in rows}}
    observations: list[Observation] = []
    for workload, name in rows:
        if name:
            observations += observed(past, row, workload, name, plan)
    tools = (("cuda", builds[next(iter(builds))].compiler), ("torch", recording.processes[0]["torch"]))
    provenance = Provenance(
        collected_at=recording.sitting["at"], device=recording.device, tools=tools, commit=row["commit"], dirty=False,
        clock_policy="not locked, settled, SM clock read in the stream", version=__version__, machine_class=machine_class(recording.device),
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
        as_of=recording.sitting["at"],
        stale=StalePolicy.BLOCK,
        tool=__version__,
    )
    at = int(row["at"])
    return NewRun(
        plan=plan, evidence=sources[1], verdicts=report.verdicts, outcome=report.outcome, headline=report.headline,
        commit=Commit(sha=row["commit"], committed_at=at, subject=row["subject"]), added_at=at, branch="main",
        digest=digest_of("past", row["commit"], recording.sitting), standing=Standing.REVIEWED, pins=(pin,),
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
    if name == anchor or not past.times(workload, anchor, "ms", name):
        if name == anchor and row is past.newest:
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
    day = past.recordings[0].sitting["at"][:10]
    reason = "the newest version of FlashCore's past"
    return Pin(
        suite=SUITE.name, commit=past.newest["commit"], since=day, reason=reason, owner="kernels", compiler="nvcc", codes=codes
    )


def by_sitting(past: Past, rows: list[tuple[Workload, str]]) -> Iterator[tuple[Recording, list[tuple[Workload, str]]]]:
    """Part the rows of a commit by the sitting that timed them."""
    for recording in past.recordings:
        part = [(workload, name) for workload, name in rows if past.recording_of(workload, name) is recording]
        if part:
            yield recording, part


def main() -> int:
    """Add all runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--db", required=True)
    options = parser.parse_args()
    past = Past(options.file)
    url, pin = address.parse(options.db, {}), pin_of(past)
    for row, rows in past.new_rows():
        for recording, part in by_sitting(past, rows):
            made = rows_of(run_of(past, recording, row, part, pin))
            added = database.write(url, lambda connection, made=made: writing.add_run(connection, made))
            print(row["commit"][:10], added)
    return 0


if __name__ == "__main__":
    sys.exit(main())
