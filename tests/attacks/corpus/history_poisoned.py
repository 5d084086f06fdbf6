"""A run that nobody signed says something about code, machine, series or verdicts of a run that counts."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from evidence_factories import make_device
from factories import make_build, make_entry_build
from history_factories import PLAN, add, evidence_of, migrated_url_of, new_run

from flashcore_ci.history import address, database, queries, writing
from flashcore_ci.history.rows import NewRun
from flashcore_ci.model.history import Commit, Standing
from flashcore_ci.model.suite import Roof

ENTRY_LIES = {
    "fewer registers": {"registers": 1},
    "no spills": {"spill_store_bytes": 4096},
    "other shared memory": {"static_shared_bytes": 7},
    "other opcodes": {"opcodes": (("NOP", 1),)},
    "other stack": {"stack_bytes": 99},
}


def _seen(url: str) -> list[str]:
    """All that the run that counts shows."""
    with database.reading(address.parse(url, {})) as connection:
        (run,) = queries.runs(connection, standings=queries.FEEDS)
        every = {series.id: series for series in queries.series(connection)}
        points = [point for number in every for point in queries.points(connection, number)]
        epochs = queries.epochs(connection)
        codes = queries.codes(connection, [point.code_id for point in points if point.code_id])
        found: list[object] = [replace(run, id=0, machine=run.machine and replace(run.machine, id=0))]
        found += [v.record for v in queries.verdicts(connection, [run.id])]
        for point in points:
            epoch = epochs[point.epoch] if point.epoch else None
            series = replace(every[point.series], id=0)
            code = replace(codes[point.code_id], id=0) if point.code_id else None
            label = epoch and replace(epoch, id=0, machine=replace(epoch.machine, id=0))
            found.append((series, code, label, replace(point, series=0, run=0, code_id=0, epoch=0)))
        return sorted(map(repr, found))


@cache
def _alone() -> list[str]:
    """What it shows in a database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        url = migrated_url_of(Path(folder))
        add(url, new_run())
        return _seen(url)


def _attack(name: str, lie: Callable[[], NewRun]) -> Attack:
    """Add the lie before the run that counts."""

    def attempt(folder: Path) -> bool:
        both = migrated_url_of(folder)
        add(both, lie(), new_run())
        return _seen(both) != _alone()

    return Attack(name=name, attempt=attempt)


def _entry(name: str, changes: dict[str, object]) -> Attack:
    def lie() -> NewRun:
        builds = (make_build(entries=(make_entry_build(**changes),)),)
        return new_run(replace(evidence_of(), builds=builds), standing=Standing.OTHER)

    return _attack(name, lie)


def _member(numbers: random.Random) -> Attack:
    value = numbers.randrange(1, 2**40)
    field = numbers.choice(("registers", "waits", "stack_bytes", "spill_load_bytes", "dynamic_shared_bytes"))
    return _entry(f"{field} {value}", {field: value})


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find shared rows by the name of what they describe, and let the first one count."""
    keys = ("identity", "uuid", "sha", "workload", "symbol")

    def by_name(row: dict[str, object]) -> bytes:
        named = next((row[key] for key in keys if key in row), None)
        return original(row if named is None else {"named": named})

    original = writing.content_digest
    monkeypatch.setattr(writing, "content_digest", by_name)


CLASS = AttackClass(
    name="rows that runs share, poisoned by the first to name them",
    attacks=(
        *(_entry(name, changes) for name, changes in ENTRY_LIES.items()),
        _attack(
            "another class of a machine", lambda: new_run(evidence_of(device=make_device(name="B200")), standing=Standing.OTHER)
        ),
        _attack(
            "another memory of a machine", lambda: new_run(evidence_of(device=make_device(memory=1)), standing=Standing.OTHER)
        ),
        _attack(
            "another subject and parent of a commit",
            lambda: new_run(
                evidence_of(collected_at="2026-11-20T08:00:00Z"),
                commit=Commit(sha=evidence_of().provenance.commit, parent="0" * 40, subject="a lie"),
                standing=Standing.OTHER,
            ),
        ),
        _attack(
            "another roof of a series",
            lambda: new_run(
                evidence_of(collected_at="2026-11-20T08:00:00Z"),
                plan=replace(PLAN, workloads=tuple(replace(workload, roof=Roof.COMPUTE) for workload in PLAN.workloads)),
                standing=Standing.OTHER,
            ),
        ),
    ),
    member=_member,
    mutant=_mutant,
)
