"""Measure one made-up shard and pack it: in this process, or as a program that may be killed in the middle.

python shard_process.py TEMPLATE BUNDLE INDEX COUNT VALUE [killed]
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from flashcore_ci.model.evidence import Shard
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan import shards
from flashcore_ci.store.run import Run, pack, prepare_run, read_run, write_run


@cache
def cut(count: int) -> tuple[tuple[Unit, ...], ...]:
    """Return the units of each shard: one workload."""
    return tuple((Unit(kind=Kind.CORRECTNESS, workload=f"w{index}"),) for index in range(1, count + 1))


@cache
def parts(count: int) -> tuple[str, ...]:
    return tuple(map(shards.units_digest, cut(count)))


def shard_of(template: Run, index: int, count: int) -> Shard:
    return Shard(index=index, count=count, plan=template.plan_digest, units=cut(count)[index - 1], parts=parts(count))


def file_of(index: int, count: int) -> ShardFile:
    """Return the file that this shard was told to measure."""
    needs = Needs(gpus=1, architecture="", exclusive=True, seconds=1.0)
    where = {"suite": "s", "suite_file": "s.toml", "plan": "f" * 64, "commit": "1" * 40}
    return ShardFile(**where, index=index, count=count, units=cut(count)[index - 1], parts=parts(count), needs=needs)


def write(
    template: Run,
    bundle: Path,
    index: int,
    count: int,
    value: float,
    *,
    targets: tuple[str, ...] = (),
    shard: Shard | None = None,
    **provenance: str,
) -> None:
    """Pack the run of shard ``index``: its workload (or other ``targets``), whose ``finite/bad-values`` is ``value``."""
    evidence = template.evidence
    observations = tuple(
        replace(one, readings=tuple((name, Measured(value=value, unit="count")) for name, _ in one.readings))
        for one in evidence.observations
        if one.target in (targets or (f"w{index}",))
    )
    changed = replace(
        evidence,
        observations=observations,
        provenance=replace(evidence.provenance, **provenance),
        shard=shard or shard_of(template, index, count),
    )
    run = bundle.with_suffix(".run")
    prepare_run(run, template.plan)
    write_run(run, template.plan, changed)
    pack(run, bundle)
    shutil.rmtree(run)


def main(arguments: list[str]) -> None:
    template, bundle, index, count, value = arguments[:5]
    write(read_run(Path(template)), Path(bundle), int(index), int(count), float(value))
    if "killed" in arguments:
        with Path(bundle).open("r+b") as file:
            file.truncate(Path(bundle).stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
