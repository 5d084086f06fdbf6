"""The one required check: the GPU job's evidence is of this commit and green."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.adapters import git
from flashcore_ci.adapters.git import Checkout
from flashcore_ci.bounded.values import loads
from flashcore_ci.judge.judge import Source
from flashcore_ci.model.errors import UnmetError, UsageError
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.verdict import Origin, Report
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import gate, reports
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.claim import claim_folder
from flashcore_ci.store.run import read_run

SUCCESS = "success"
V1_REFUSED = "the evidence is of the first schema (evidence-v1), which no measurement of this version has"


def require(evidence: Path, request: Request, progress: Progress, *, needs: str | None, base: str | None) -> Report:
    """Judge the evidence, and with ``base`` its comparison with the fork point, against binaries built again here.

    ``needs`` is ``toJSON(needs)``. UnmetError when a job failed, or the evidence is of another commit.
    """
    with claim_folder(request.out):
        reports.clear(request.out)
    _refuse(unmet_jobs(job_results(needs)) if needs is not None else ())
    run = read_run(evidence)
    _refuse((V1_REFUSED,) if run.is_v1 else ())
    with scratch_folder() as logs:
        here = git.checkout(request.root, logs=logs)
        if base is not None:
            request = replace(request, base=git.fork_point(request.root, base, logs=logs))
    _refuse(unmet_evidence(run.evidence.provenance, here, version=__version__))
    live = Origin(kind="live", detail=f"{recorded.where_and_when(run.evidence.provenance)}, of this commit")
    return gate.gate(request, progress, evidence=(Source(origin=live, evidence=run.evidence, files=run.files),))


def job_results(text: str) -> tuple[tuple[str, str], ...]:
    """Read each job's result. UsageError when the text is not ``toJSON(needs)``."""
    fix = "give the JSON of GitHub's needs context: --needs \"$NEEDS\", with NEEDS: ${{ toJSON(needs) }} in the step's env"
    try:
        jobs = loads(text)
        results = tuple((str(name), str(job["result"])) for name, job in jobs.items())
    except (ValueError, AttributeError, TypeError, KeyError):
        raise UsageError("--needs is not a JSON object of jobs and their results", fix=fix) from None
    if not results:
        raise UsageError("--needs names no job", fix=fix)
    return results


def unmet_jobs(jobs: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Write one line per job that did not succeed."""
    more = {"skipped": ", and a skipped job is not a pass"}
    return tuple(f"job {name}: {result}{more.get(result, '')}" for name, result in jobs if result != SUCCESS)


def unmet_evidence(provenance: Provenance, here: Checkout, *, version: str) -> tuple[str, ...]:
    """Write one line per reason why the evidence does not count."""
    return tuple(_differences(provenance, here, version))


def _differences(provenance: Provenance, here: Checkout, version: str) -> Iterator[str]:
    if not here.commit:
        yield "this is not a git checkout: there is no commit to compare with the evidence's"
    elif provenance.commit != here.commit:
        evidence_commit = git.short(provenance.commit) or "no commit"
        yield f"the evidence is of {evidence_commit}, and this checkout is at {git.short(here.commit)}"
    if provenance.dirty:
        yield "the evidence is of a checkout with uncommitted changes"
    if here.dirty:
        yield "this checkout has uncommitted changes"
    if provenance.device is None:
        yield "the evidence names no GPU"
    if provenance.version != version:
        yield f"the evidence was collected by flashcore-ci {provenance.version}, and this is {version}"


def _refuse(problems: tuple[str, ...]) -> None:
    if problems:
        raise UnmetError("\n".join(problems), fix="run the GPU job on this commit until it is green, and read its summary")
