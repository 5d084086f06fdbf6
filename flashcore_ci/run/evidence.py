"""Recorded runs as evidence, and as files."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.judge.judge import Source
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Evidence, Provenance
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Origin
from flashcore_ci.plan.planner import NEW_WORKLOAD
from flashcore_ci.store import manifest
from flashcore_ci.store import run as store
from flashcore_ci.store.run import Run, read_run

BUNDLES = "*.tar.xz"
MAX_BUNDLES = 100
MAX_BYTES = 2 * manifest.MAX_BYTES
"""Runs of a folder, and bytes of their files together. One run may have ``manifest.MAX_BYTES``."""
MAX_NAME = 80
"""Characters of the device's name that every verdict repeats."""
NO_BASE = f"{Code.NO_BASE}: "


def read_bundles(folder: Path) -> tuple[Source, ...]:
    """Read every bundle in ``folder``, by name. EvidenceError if they are too large together."""
    sources, total = [], 0
    for bundle in sorted(folder.glob(BUNDLES)):
        sources.append(source_of(read_run(bundle)))
        total += sum(map(len, sources[-1].files.values()))
        if total > MAX_BYTES or len(sources) > MAX_BUNDLES:
            raise EvidenceError(f"{folder} holds more than {MAX_BUNDLES} runs or {MAX_BYTES >> 20} MiB", fix="remove old runs")
    return tuple(sources)


def source_of(run: Run) -> Source:
    """Use a recorded run as evidence."""
    return Source(origin=origin_of(run.evidence.provenance), evidence=run.evidence, files=run.files)


def live_source(detail: str, evidence: Evidence, folder: Path) -> Source:
    """Use the run that was just written to ``folder`` as evidence."""
    return Source(origin=Origin(kind="live", detail=detail), evidence=evidence, files=store.tool_files(folder))


def origin_of(provenance: Provenance) -> Origin:
    """Name an earlier run by device, day and commit."""
    commit = f", commit {provenance.commit[:7]}" if provenance.commit else ""
    return Origin(kind="recorded", detail=f"{where_and_when(provenance)}{commit}")


def where_and_when(provenance: Provenance) -> str:
    """Name machine and day, as in ``NVIDIA H200, driver 580.159.04, 2026-11-21``."""
    device = provenance.device
    machine = f"{device.name[:MAX_NAME]}, driver {device.driver[:MAX_NAME]}" if device else "a machine without a GPU"
    return f"{machine}, {provenance.collected_at[:10]}"


def has_comparisons(run: Run) -> bool:
    """Tell whether the run compared with a base, or tried to."""
    return any(map(len, without_base(run))) or any(
        observation.kind is Kind.COMPARISON for observation in run.evidence.observations
    )


def without_base(run: Run) -> tuple[dict[str, str], dict[str, str]]:
    """Say why the run's base could not run some workloads: those that it has, and those that are new."""
    reasons = {excluded.target: excluded.why for excluded in run.plan.excluded if excluded.why.startswith(NO_BASE)}
    texts = {target: why.removeprefix(NO_BASE) for target, why in reasons.items()}
    new = {target: why for target, why in texts.items() if why.startswith(NEW_WORKLOAD)}
    return {target: why for target, why in texts.items() if target not in new}, new


def pack(run: Path, file: Path) -> int:
    """Pack the run, and return the bytes of the file."""
    store.pack(run, file)
    return file.stat().st_size
