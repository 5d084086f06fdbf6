"""``flashcore-ci baseline``: what later runs are held against, so that small slow-downs do not add up."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import click

from flashcore_ci.cli import options
from flashcore_ci.model.baseline import Baseline, propose
from flashcore_ci.model.errors import EvidenceError, ExitCode
from flashcore_ci.run import references
from flashcore_ci.run.request import Request
from flashcore_ci.store import record_files as files
from flashcore_ci.store.run import read_run


@click.group("baseline")
def command() -> None:
    """What the gate `no-drift` holds timings against."""


@command.command("propose")
@click.argument("run", type=click.Path(path_type=Path))
@options.suite
def propose_command(*, run: Path, suite: Path) -> int:
    """Write the timings of RUN (a folder or a bundle) as the baseline of its machine, for a review.

    The file goes to `baselines` beside the suite. What the run did not time stays as it is. Nothing else ever changes a baseline.
    """
    evidence = read_run(run).evidence
    request = Request(suite=suite, out=run, environ=os.environ)
    folder = (request.root / request.suite).parent / references.BASELINES
    present = next((one for _, one in references.baselines(folder) if one.is_for(evidence.provenance)), None)
    try:
        proposed = propose(evidence, present)
    except ValueError as error:
        raise EvidenceError(f"{run}: {error}", fix="time it again: this cannot have been measured") from None
    if proposed is None:
        raise EvidenceError(f"{run}: nothing was timed on a GPU", fix="give a run that `flashcore-ci gate` measured live")
    file = references.file_of(proposed, folder)
    files.write(proposed, file)
    for line in changes(present, proposed):
        click.echo(line)
    if evidence.provenance.dirty:
        click.echo("the run was of a checkout with uncommitted changes", err=True)
    click.echo(f"{file}: review the changes above and commit it", err=True)
    return ExitCode.PASSED


def changes(before: Baseline | None, after: Baseline) -> list[str]:
    """One line for each row that is new or has changed: medians, and by how much they moved."""
    lines = []
    for row in after.rows:
        old = before.of(row.workload) if before else None
        if old == row:
            continue
        now = f"{row.workload}: {median(row.ms):.4g} ms, {median(row.megacycles):.5g} Mcycle"
        if old is not None:
            moved = [
                100.0 * (median(new) / median(past) - 1.0) for new, past in ((row.ms, old.ms), (row.megacycles, old.megacycles))
            ]
            now += f" ({moved[0]:+.2f} % in time, {moved[1]:+.2f} % in cycles since {old.collected_at[:10]})"
        lines.append(now if old is not None else f"{now} (new)")
    return lines
