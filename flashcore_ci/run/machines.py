"""Evidence of several machine classes, one verdict each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flashcore_ci.model.errors import UnmetError, UsageError
from flashcore_ci.run import gate, reports
from flashcore_ci.run.request import Request
from flashcore_ci.store.claim import claim_folder, refuse_input
from flashcore_ci.store.run import read_run

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FIX = "run the GPU job on one machine of each class, and give the evidence of each once"


def demand(names: str, evidence: Sequence[Path], request: Request) -> tuple[str, ...]:
    """Return the class of each evidence, as ``assign``, and remove earlier reports of all, but not of ``evidence``."""
    outs = [request.out / name for name in _read(names)]
    for out in (request.out, *outs):
        refuse_input(out, *evidence)
    for out in outs:
        gate.check_suite_exists(replace(request, out=out))
        with claim_folder(out):
            reports.clear(out)
    devices = [read_run(file).evidence.provenance.device for file in evidence]
    return assign(names, ["" if device is None else device.name for device in devices])


def _read(names: str) -> list[str]:
    wanted = names.lower().split(",")
    if len(set(wanted)) != len(wanted) or not all(map(NAME.fullmatch, wanted)):
        raise UsageError(f"--machines names no machines, or one of them twice: {names!r}", fix="--machines h100,h200")
    return wanted


def assign(names: str, devices: Sequence[str]) -> tuple[str, ...]:
    """Return for each GPU's name the one of ``names``, as in ``h100,h200``, whose words it has.

    UnmetError unless each name has exactly one GPU, UsageError for wrong names.
    """
    wanted = _read(names)
    found: list[str] = []
    for device in devices:
        words = set(re.split(r"[^a-z0-9]+", device.lower()))
        matching = [name for name in wanted if set(name.split("-")) <= words]
        if len(matching) != 1:
            raise UnmetError(
                f"evidence of {device[:80] or 'no GPU'} is of {' and '.join(matching) or 'no machine in --machines'}", fix=FIX
            )
        found += matching
    for name in wanted:
        if found.count(name) != 1:
            raise UnmetError(f"{found.count(name)} evidences are of {name}, and one is demanded", fix=FIX)
    return tuple(found)
