"""Propose a baseline for the gate ``no-drift``, from a run or from the kernels of the last one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from flashcore_ci.adapters import git, nvml
from flashcore_ci.judge.references import plain_name
from flashcore_ci.model import baseline
from flashcore_ci.model.baseline import Baseline
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.options import DEFAULTS
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import host, references
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.measuring import collect_run
from flashcore_ci.run.plan import load_suite
from flashcore_ci.run.process_results import ProcessResults
from flashcore_ci.run.request import Progress, Request
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
    if not (request.root / request.suite).is_file():
        load_suite(request)  # it says what is wrong: a mistyped one would get a folder of its own
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


def renew(request: Request, progress: Progress) -> Proposal:
    """Measure the kernels of the last baseline of this product again, each at the commit of its row, and propose the result.

    EvidenceError without such a baseline, UsageError if a commit is not here, CannotCollectError without a GPU.
    """
    host.require_gpu(request.gpu)
    folder = (request.root / request.suite).parent / references.BASELINES
    old = _last(folder, nvml.read(request.gpu).name)
    proposed: Baseline | None = None
    for commit in sorted({row.commit for row in old.rows}):
        names = tuple(row.workload for row in old.rows if row.commit == commit)
        evidence = _measure_again(commit, names, request, progress)
        proposed = baseline.propose(evidence, proposed) or proposed
    absent = sorted({row.workload for row in old.rows} - {row.workload for row in proposed.rows} if proposed else {"all"})
    if proposed is None or absent:
        raise EvidenceError(f"not timed: {', '.join(absent)}", fix="see the logs in the run folder, then run it again")
    file = references.file_of(proposed, folder)
    files.write(proposed, file)
    return Proposal(file=file, changes=tuple(list_changes(old, proposed)), dirty=False)


def _last(folder: Path, device: str) -> Baseline:
    known = [one for _, one in references.baselines(folder) if plain_name(one.device) == plain_name(device)]
    if not known:
        raise EvidenceError(f"{folder} has no baseline of {device}", fix="flashcore-ci baseline propose RUN")
    return max(known, key=lambda one: max((row.collected_at for row in one.rows), default=""))


def _measure_again(commit: str, names: tuple[str, ...], request: Request, progress: Progress) -> Evidence:
    with host.scratch_folder() as logs:
        tree = check_out(git.commit_of(request.root, commit, logs=logs), request, logs)
    there = replace(request, checkout=tree, commit=commit, out=(request.out / git.short(commit)).absolute(), only=names)
    there = replace(there, live=True, kinds=(Kind.TIMING,))
    suite = load_suite(there)
    if suite.build == DEFAULTS:  # before suites said how kernels are compiled, all were compiled as they now say
        suite = replace(suite, build=load_suite(request).build)
    return collect_run(there, progress, suite)


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
            other = "" if old.collector == row.collector else ", and was timed in another way"
            lines.append(f"{line} ({time:+.2f} % in time, {cycles:+.2f} % in cycles since {old.collected_at[:10]}{other})")
    return lines


def _change(new: tuple[float, ...], old: tuple[float, ...]) -> float:
    """Compute the change of the median (%)."""
    return 100.0 * (median(new) / median(old) - 1.0)
