"""Propose a baseline for the gate ``no-drift``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from flashcore_ci.model import baseline
from flashcore_ci.model.baseline import Baseline
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import references
from flashcore_ci.run.process_results import ProcessResults
from flashcore_ci.run.request import Request
from flashcore_ci.store import record_files as files
from flashcore_ci.store.run import read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The written file, and one line per changed row."""

    file: Path
    changes: tuple[str, ...]
    dirty: bool


def propose(run: Path, request: Request) -> Proposal:
    """Write the timings of ``run`` as its machine's baseline. EvidenceError if no process wrote them, or not on a GPU."""
    recording = read_run(run)
    results, evidence = ProcessResults(recording.files), recording.evidence
    for observation in evidence.observations:
        if observation.kind is Kind.TIMING and observation.missing is None and (lost := results.check(observation)) is not None:
            raise EvidenceError(f"{run}: {observation.target}: {lost.message}", fix="measure again: flashcore-ci gate --live")
    folder = (request.root / request.suite).parent / references.BASELINES
    present = next((one for _, one in references.baselines(folder) if one.is_for(evidence.provenance)), None)
    try:
        proposed = baseline.propose(evidence, present)
    except ValueError as error:
        raise EvidenceError(f"{run}: impossible timings: {error}", fix="measure again: flashcore-ci gate --live") from None
    if proposed is None:
        raise EvidenceError(f"{run}: nothing was timed on a GPU", fix="give a run that `flashcore-ci gate` measured live")
    file = references.file_of(proposed, folder)
    files.write(proposed, file)
    return Proposal(file=file, changes=tuple(list_changes(present, proposed)), dirty=evidence.provenance.dirty)


def list_changes(before: Baseline | None, after: Baseline) -> list[str]:
    """Write one line per new or changed row."""
    lines = []
    for row in after.rows:
        old = before.of(row.workload) if before else None
        if old == row:
            continue
        line = f"{row.workload}: {median(row.ms):.4g} ms, {median(row.megacycles):.5g} Mcycle"
        if old is None:
            lines.append(f"{line} (new)")
        else:
            time, cycles = _change(row.ms, old.ms), _change(row.megacycles, old.megacycles)
            lines.append(f"{line} ({time:+.2f} % in time, {cycles:+.2f} % in cycles since {old.collected_at[:10]})")
    return lines


def _change(new: tuple[float, ...], old: tuple[float, ...]) -> float:
    """Compute the change of the median (%)."""
    return 100.0 * (median(new) / median(old) - 1.0)
