"""Bundles of one shard that answer for another, or say that they are of another cut."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shard_process
from attacking import Attack, AttackClass
from evidence_factories import good_observation, make_evidence, make_provenance
from factories import make_build, make_check, make_description, make_plan, make_workload

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import UNVERIFIED, VERIFIED, Shard
from flashcore_ci.model.shard import Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan.shards import units_digest
from flashcore_ci.run import merge
from flashcore_ci.store.codec import encode
from flashcore_ci.store.run import Run, prepare_run, write_run

COUNT = 4
NAMES = tuple(f"w{index}" for index in range(1, COUNT + 1))
PLAN = make_plan(
    tuple(make_check(target=name) for name in NAMES),
    workloads=tuple(make_workload(name, params=(("n", len(name)),), collect=(Kind.CORRECTNESS,)) for name in NAMES),
    descriptions=(make_description(workloads=NAMES),),
    excluded=(),
)
BUILD = make_build()
SEEN = {name: good_observation(PLAN, BUILD, Kind.CORRECTNESS, name) for name in NAMES}
UNITS = tuple(unit for part in shard_process.cut(COUNT) for unit in part)


EVIDENCE = make_evidence(builds=(BUILD,), provenance=make_provenance(commit="1" * 40))
TEMPLATE = Run(plan=PLAN, evidence=EVIDENCE, plan_digest=hashlib.sha256(encode(PLAN)).hexdigest())
FILES = {index: encode(shard_process.file_of(index, COUNT)) for index in (1, 3)}


def _bundle(run: Path, shard: Shard | None, targets: Sequence[str], files: Sequence[str] = ()) -> Path:
    prepare_run(run, PLAN)
    for file in files:
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_bytes(b"{}")
    write_run(run, PLAN, replace(EVIDENCE, observations=tuple(SEEN[target] for target in targets), shard=shard))
    return run


def _attack(name: str, change: Callable[[Shard], Shard | None], targets: Sequence[str], files: Sequence[str] = ()) -> Attack:
    """Shard 3 hands in a bundle. Shard 1 is honest, and shards 2 and 4 are lost. Shard files are given."""

    def attempt(folder: Path) -> bool:
        shards = folder / "shards"
        shards.mkdir()
        names = {index: f"shard-{index:03}-{hashlib.sha256(data).hexdigest()[:12]}" for index, data in FILES.items()}
        for index, data in FILES.items():
            (shards / f"{names[index]}.json").write_bytes(data)
        honest = _bundle(folder / names[1], shard_process.shard_of(TEMPLATE, 1, COUNT), ["w1"])
        greedy = _bundle(folder / names[3], change(shard_process.shard_of(TEMPLATE, 3, COUNT)), targets, files)
        try:
            parts = merge.read([honest, greedy])
            merge.demand_shards(parts, shards)
            merge.merge(parts, verified=True)
        except EvidenceError:
            return False
        return True

    return Attack(name=name, attempt=attempt)


def _as(**changes: Any) -> Callable[[Shard], Shard]:
    return lambda shard: replace(shard, **changes)


ONE = (units_digest(UNITS),)
ATTACKS = (
    _attack("a result of a lost shard", _as(), ["w3", "w2"]),
    _attack("only the result of a lost shard", _as(), ["w4"]),
    _attack("a result that an honest shard has too", _as(), ["w3", "w1"]),
    _attack("the units of a lost shard", _as(units=(UNITS[2], UNITS[1])), ["w3", "w2"]),
    _attack("its digest fits its units", _as(units=UNITS[1:3], parts=("a", "b", units_digest(UNITS[1:3]), "d")), ["w3", "w2"]),
    _attack("a cut of one", _as(index=1, count=1, units=UNITS, parts=ONE), ["w3", "w2", "w4"]),
    _attack("a merged run", _as(index=VERIFIED, units=UNITS), ["w3", "w2", "w4"]),
    _attack("a merged run without signatures", _as(index=UNVERIFIED, units=UNITS), ["w3", "w2", "w4"]),
    _attack("a whole run", lambda _: None, ["w3", "w2", "w4"]),
    _attack("another shard", _as(index=2, units=UNITS[1:2]), ["w2"]),
    _attack("a file of another shard", _as(), ["w3"], ["artifacts/shard-2/sanitizer/memcheck-w2.log"]),
    _attack("a file of no shard", _as(), ["w3"], ["artifacts/sanitizer/memcheck-w2.log"]),
    _attack("a file in a folder with almost its name", _as(), ["w3"], ["artifacts/shard-31/sanitizer/memcheck-w2.log"]),
)


def _member(numbers: random.Random) -> Attack:
    """Answer for any other workloads, with any claim."""
    others = numbers.sample(["w1", "w2", "w4"], numbers.randint(1, 3))
    units = tuple(Unit(kind=Kind.CORRECTNESS, workload=name) for name in ("w3", *others))
    count = numbers.randint(1, 6)
    parts = tuple(units_digest(units) for _ in range(count))
    claim = numbers.choice(
        (
            _as(),
            _as(units=units),
            _as(index=numbers.randint(1, count), count=count, units=units, parts=parts),
            _as(index=numbers.choice((VERIFIED, UNVERIFIED)), units=units),
        )
    )
    return _attack(f"for {', '.join(others)}", claim, ["w3", *others])


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge a bundle by its plan alone, as before."""
    monkeypatch.setattr(merge, "_find_foreign", lambda _: "")
    monkeypatch.setattr(merge, "demand_shard", lambda *_: None)
    monkeypatch.setattr(merge, "_refuse_other_cut", lambda *_: None)
    honest = property(
        lambda part: part.run.evidence.shard or Shard(index=VERIFIED, count=1, plan=part.run.plan_digest, units=UNITS, parts=ONE)
    )
    monkeypatch.setattr(merge.Part, "shard", honest)


CLASS = AttackClass(name="foreign units", attacks=ATTACKS, member=_member, mutant=_mutant)
