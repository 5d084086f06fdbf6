"""``flashcore-ci require``: the one check that a repository requires, after the GPU job, on a machine without a GPU."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from flashcore_ci import __version__
from flashcore_ci.adapters import git
from flashcore_ci.cli import console, options, signals
from flashcore_ci.judge.judge import Source
from flashcore_ci.model.errors import UnmetError
from flashcore_ci.model.verdict import Origin
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import gate, reports, required_check
from flashcore_ci.run.request import Request
from flashcore_ci.store.claim import claim_folder
from flashcore_ci.store.run import Run, read_run


@click.command("require")
@click.argument("evidence", type=click.Path(path_type=Path))
@options.suite
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/required"), show_default=True, help="Folder for reports."
)
@click.option("--needs", default=None, metavar="JSON", help="GitHub's `toJSON(needs)`: every job in it must have succeeded.")
@click.option("--base", metavar="REVISION", help="Demand the comparison with the commit where this one left REVISION, too.")
@options.build
@options.base_build
@options.toolchain
@options.jobs
@options.as_json
def command(*, evidence: Path, out: Path, needs: str | None, base: str | None, as_json: bool, **asked: Any) -> int:
    """Demand that EVIDENCE, which the GPU job packed, is of this commit and green.

    The kernels are built again from this checkout, and only measurements that carry the digests of these builds count: what is
    missing, stale or narrowed blocks; with --base the base is built again too. Exit code 11 when a needed job did not succeed
    or the evidence is of another commit.
    """
    with claim_folder(out):
        reports.clear(out)
    request = Request(out=out, environ=os.environ, live=False, **asked)
    _refuse(required_check.unmet_jobs(required_check.results(needs)) if needs is not None else ())
    run = read_run(evidence)
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as logs:
        here = git.checkout(request.root, logs=Path(logs))
        if base is not None:
            request = replace(request, base=git.fork_point(request.root, base, logs=Path(logs)))
    _refuse(required_check.unmet_evidence(run.evidence.provenance, here, version=__version__))
    teller = console.Teller(os.environ)
    with signals.graceful():
        report = gate.gate(request, teller, measured=(_of_this_commit(run),))
    teller.done()
    console.present(report, out, as_json=as_json, environ=os.environ)
    return report.exit_code


def _of_this_commit(run: Run) -> Source:
    """As good as measured now: the commit is this one, also for subjects whose digests cannot say so."""
    where = recorded.where_and_when(run.evidence.provenance)
    return Source(origin=Origin(kind="live", detail=f"{where}, of this commit"), evidence=run.evidence, files=run.files)


def _refuse(unmet: tuple[str, ...]) -> None:
    if unmet:
        raise UnmetError("\n".join(unmet), fix="run the GPU job on this very commit until it is green; see its summary")
