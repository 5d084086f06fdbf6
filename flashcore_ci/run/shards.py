"""Cut a suite into shards, and find the part of a plan that a shard measures."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.evidence import Shard
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan import shards
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import host
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store import bundle, shard_files
from flashcore_ci.store.codec import decode_part, encode
from flashcore_ci.store.manifest import ARTIFACTS, EVIDENCE
from flashcore_ci.store.run import encode_plan
from flashcore_ci.store.shard_files import FIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a plan that a shard measures."""

    plan: Plan
    shard: Shard

    @property
    def folder(self) -> str:
        """The folder of its files in a run, which no other shard uses."""
        return f"{ARTIFACTS}/shard-{self.shard.index}"


def digest_of(part: Plan) -> str:
    """Return the SHA-256 of what a part asks to measure. Its limits do not count: they judge, and measure nothing."""
    return hashlib.sha256(encode(replace(part, checks=(), excluded=()))).hexdigest()


def cut(request: Request, progress: Progress, *, gpus: int) -> tuple[ShardFile, ...]:
    """Cut the suite into at most ``gpus`` shards, by the durations of recorded runs."""
    return cut_plan(make_plan(load_suite(request), request, progress), request, gpus=gpus)


def cut_to_files(request: Request, progress: Progress, *, gpus: int) -> tuple[tuple[ShardFile, Path], ...]:
    """Write the shards of ``cut`` to the requested folder."""
    found = cut(request, progress, gpus=gpus)
    return tuple(zip(found, shard_files.write(found, request.out), strict=True))


def cut_plan(plan: Plan, request: Request, *, gpus: int, durations: Mapping[Unit, float] | None = None) -> tuple[ShardFile, ...]:
    """Cut this plan, as ``cut``, by these ``durations`` (None: as recorded). UsageError if it asks nothing of a GPU."""
    parts = shards.cut(plan, recorded_durations(request) if durations is None else durations, gpus)
    if not parts:
        raise UsageError(f"{request.suite} asks nothing of a GPU", fix="run `flashcore-ci gate` on any machine")
    commit = host.commit_of(request)
    digests = tuple(shards.units_digest(units) for units, _ in parts)
    return tuple(
        ShardFile(
            suite=plan.suite,
            suite_file=plan.suite_file,
            plan=digest_of(shards.only(plan, units)),
            commit=commit,
            index=number,
            count=len(parts),
            units=units,
            parts=digests,
            needs=Needs(
                gpus=shards.gpus_of(plan, units),
                architecture=shards.architecture_of(plan, units),
                exclusive=True,
                seconds=round(seconds, 1),
            ),
            base=request.base or "",
        )
        for number, (units, seconds) in enumerate(parts, start=1)
    )


def part_of(plan: Plan, shard: ShardFile, commit: str) -> Part:
    """Return what the shard measures. UsageError if it was cut from another plan or commit."""
    if shard.commit != commit:
        raise UsageError(f"the shard is of commit {shard.commit[:7]}, and this checkout is at {commit[:7]}", fix=FIX)
    try:
        part = shards.only(plan, shard.units)
    except KeyError as error:
        raise UsageError(f"{plan.suite_file} does not ask for {error.args[0]}", fix=FIX) from None
    if shard.plan != digest_of(part):
        raise UsageError(f"the shard was cut from another version of {shard.suite_file} or of its subjects", fix=FIX)
    whole = hashlib.sha256(encode_plan(plan)).hexdigest()
    return Part(plan=part, shard=Shard(index=shard.index, count=shard.count, plan=whole, units=shard.units, parts=shard.parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    kind: Kind
    target: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    observations: tuple[_Timed, ...]


def recorded_durations(request: Request) -> dict[Unit, float]:
    """Return the seconds of each unit in recorded runs. No verdict depends on them."""
    found: dict[Unit, float] = {}
    for file in sorted(request.evidence.glob(recorded.BUNDLES))[: recorded.MAX_BUNDLES]:
        with contextlib.suppress(KeyError, ValueError):
            times = decode_part(_Times, bundle.unpack(file)[EVIDENCE])
            found |= {Unit(kind=one.kind, workload=one.target): one.seconds for one in times.observations}
    return found
