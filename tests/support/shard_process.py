"""Measure one made-up shard and pack it: in this process, or as a program that may be killed in the middle.

python shard_process.py TEMPLATE BUNDLE INDEX COUNT VALUE [killed]
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

from flashcore_ci.model.evidence import Shard
from flashcore_ci.model.reading import Measured
from flashcore_ci.store.run import Run, pack, prepare_run, read_run, write_run


def write(template: Run, bundle: Path, index: int, count: int, value: float, **provenance: str) -> None:
    """Pack the run of shard ``index``: one workload, whose ``finite/bad-values`` is ``value``."""
    evidence = template.evidence
    target = f"w{index}"
    observations = tuple(
        replace(one, readings=tuple((name, Measured(value=value, unit="count")) for name, _ in one.readings))
        for one in evidence.observations
        if one.target == target
    )
    changed = replace(
        evidence,
        observations=observations,
        provenance=replace(evidence.provenance, **provenance),
        shard=Shard(index=index, count=count, plan=template.plan_digest),
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
