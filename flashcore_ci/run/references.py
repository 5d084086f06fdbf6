"""A checkout's references: the folders ``noise`` and ``baselines`` next to the suite."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from flashcore_ci.judge.references import References
from flashcore_ci.model.baseline import Baseline
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.noise import Noise
from flashcore_ci.model.suite import Statistic, Suite
from flashcore_ci.store import record_files as files

NOISE = "noise"
BASELINES = "baselines"


def of(suite: Path) -> References:
    """Read all references. EvidenceError for a broken or duplicate one."""
    noises = files.read_all(Noise, suite.parent / NOISE)
    _refuse_same_machine([(file, (noise.device, noise.clock_policy)) for file, noise in noises])
    return References(
        noises=tuple(noise for _, noise in noises),
        baselines=tuple(baseline for _, baseline in baselines(suite.parent / BASELINES)),
    )


def margins(suite: Suite) -> dict[str, float]:
    """Return the margin (%) of every workload compared with a base."""
    return {
        workload.id: next(limit.value for limit in gate.limits if fnmatchcase(workload.id, limit.on))
        for gate in suite.gates
        if gate.statistic is Statistic.SLOWDOWN
        for workload in suite.workloads
        if gate.evidence in workload.collect
    }


def baselines(folder: Path) -> tuple[tuple[Path, Baseline], ...]:
    """Read every baseline with its file. EvidenceError for two of one kind of machine."""
    entries = files.read_all(Baseline, folder)
    _refuse_same_machine([(file, baseline.key) for file, baseline in entries])
    return entries


def _refuse_same_machine(keys: list[tuple[Path, tuple[str, ...]]]) -> None:
    by_key: dict[tuple[str, ...], Path] = {}
    for file, key in keys:
        if key in by_key:
            raise EvidenceError(f"{file} and {by_key[key].name} are for the same machine", fix="delete one of them")
        by_key[key] = file


def file_of(baseline: Baseline, folder: Path) -> Path:
    """Return the file of this machine's baseline, perhaps new. EvidenceError if its name is taken."""
    present = next((file for file, known in baselines(folder) if known.key == baseline.key), None)
    name = re.sub(r"[^a-z0-9.]+", "-", f"{baseline.device}-{baseline.driver}-{baseline.clock_policy.split(';')[0]}".lower())
    file = present or folder / f"{name}.json"
    if present is None and file.exists():
        raise EvidenceError(f"{file} is for another machine or clock policy", fix="rename it")
    return file
