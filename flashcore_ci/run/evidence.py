"""Recorded runs as sources of evidence, each with the words that say where it came from."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.judge.judge import Source
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.verdict import Origin
from flashcore_ci.store.run import Run, read_run

BUNDLES = "*.tar.xz"


def recall(folder: Path) -> tuple[Source, ...]:
    """Every bundle in ``folder``, in the order of their names; none when there is no such folder. EvidenceError for a broken one."""
    return tuple(source_of(read_run(bundle)) for bundle in sorted(folder.glob(BUNDLES)))


def source_of(run: Run) -> Source:
    """An earlier run as a source."""
    return Source(origin=origin_of(run.evidence.provenance), evidence=run.evidence, files=run.files)


def origin_of(provenance: Provenance) -> Origin:
    """Name an earlier run by device, day and commit, so that runs of one day differ."""
    commit = f", commit {provenance.commit[:7]}" if provenance.commit else ""
    return Origin(kind="recorded", detail=f"{where_and_when(provenance)}{commit}")


def where_and_when(provenance: Provenance) -> str:
    """``NVIDIA H200, driver 580.159.04, 2026-11-21``."""
    device = provenance.device
    machine = f"{device.name}, driver {device.driver}" if device else "a machine without a GPU"
    return f"{machine}, {provenance.collected_at[:10]}"
