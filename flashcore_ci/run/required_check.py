"""The one required check: the GPU job's evidence is of this commit and green."""

from __future__ import annotations

import re
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
from flashcore_ci.run import gate, github, reports
from flashcore_ci.run import statement as statements
from flashcore_ci.run.base import measured
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.plan import load_suite
from flashcore_ci.run.project import by_suite_of_base
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.claim import claim_folder, refuse_input
from flashcore_ci.store.run import read_run

SUCCESS = "success"
SHOWN = 3
"""Changed files that a message names."""
JOB = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
V1_REFUSED = "the evidence is of the first schema (evidence-v1), which no measurement of this version has"

PART_REFUSED = "the evidence is of a shard, or was merged from bundles without signed statements"


def require(
    evidence: Path,
    request: Request,
    progress: Progress,
    *,
    needs: str | None,
    demand: str | None = None,
    base: str | None,
    statement: Path | None = None,
    rest: tuple[Path, Path] | None = None,
) -> Report:
    """Judge the evidence, and with ``base`` its comparison with the fork point, against binaries built again here.

    ``needs`` is ``toJSON(needs)``, and ``demand`` names the jobs in it that must be there. UnmetError when a job failed or is absent,
    the evidence is of another commit, or ``statement`` is not its in-toto statement. ``rest``: evidence of the base with its statement,
    for the workloads that the GPU job left out.
    """
    refuse_input(request.out, evidence, *(rest or ()))
    gate.check_suite_exists(request)
    with claim_folder(request.out):
        reports.clear(request.out)
    _refuse(unmet_jobs(*demanded_results(needs, demand)))
    if base is not None:
        with scratch_folder() as logs:
            request = replace(request, base=git.fork_point(request.root, base, logs=logs))
            request = by_suite_of_base(request, logs=logs)
    accepts = load_suite(request).accepts
    if statement is not None:
        run = statements.demand(evidence, statement, invocation=github.invocation(request.environ))
    else:
        run = read_run(evidence)
    _refuse((V1_REFUSED,) if run.is_v1 else ())
    _refuse((PART_REFUSED,) if run.evidence.is_part else ())
    with scratch_folder() as logs:
        outputs = (request.out, evidence, *filter(None, (request.build, request.base_build)))
        here = git.checkout(request.root, logs=logs, outputs=tuple(request.root / path for path in outputs))
    named = () if accepts else (f"{request.suite} has no [accepts]: it names no device, driver, tools and age of the evidence",)
    _refuse((*named, *unmet_evidence(run.evidence.provenance, here, version=__version__)))
    live = Origin(kind="live", detail=f"{recorded.where_and_when(run.evidence.provenance)}, of this commit")
    sources: tuple[Source, ...] = (Source(origin=live, evidence=run.evidence, files=run.files),)
    if rest is not None:
        if request.base is None:
            raise UsageError("--base-evidence answers for a base, and --base names none", fix="add --base REVISION")
        sources = (*sources, measured.join(rest, run, request.base, request))
    return gate.gate(request, progress, evidence=sources)


def demanded_results(needs: str | None, demand: str | None) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the results and the demanded jobs. UsageError for one without the other."""
    if (needs is None) != (demand is None):
        fix = 'give both: --needs "$NEEDS" --demand "ci gpu attest"'
        raise UsageError("--needs has the results of jobs, and --demand names the jobs that must be among them", fix=fix)
    if needs is None or demand is None:
        return (), ()
    names = tuple(demand.replace(",", " ").split())
    if not names or len(set(names)) != len(names) or not all(map(JOB.fullmatch, names)):
        raise UsageError(f"--demand names no jobs, or one of them twice: {demand!r}", fix='--demand "ci gpu attest"')
    return job_results(needs), names


def job_results(text: str) -> tuple[tuple[str, str], ...]:
    """Read each job's result. UsageError when the text is not ``toJSON(needs)``."""
    fix = "give the JSON of GitHub's needs context: --needs \"$NEEDS\", with NEEDS: ${{ toJSON(needs) }} in the step's env"
    try:
        jobs = loads(text)
        results = tuple((name, job["result"]) for name, job in jobs.items())
        is_text = all(isinstance(result, str) for _, result in results)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        twice = f": {error}" if type(error) is ValueError else ""
        raise UsageError(f"--needs is not a JSON object of jobs and their results{twice}", fix=fix) from None
    if not results or not is_text:
        raise UsageError("--needs names no job, or a result that is not text", fix=fix)
    return results


def unmet_jobs(jobs: tuple[tuple[str, str], ...], demanded: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Write one line per job that did not succeed, and per demanded job that is absent."""
    more = {"skipped": ", and a skipped job is not a pass"}
    failed = tuple(f"job {name}: {result}{more.get(result, '')}" for name, result in jobs if result != SUCCESS)
    return failed + tuple(f"job {name}: demanded, and --needs has no such job" for name in demanded if name not in dict(jobs))


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
        more = f", and {len(here.changes) - SHOWN} more" if len(here.changes) > SHOWN else ""
        yield f"this checkout has uncommitted changes: {'; '.join(here.changes[:SHOWN])}{more}"
    if provenance.device is None:
        yield "the evidence names no GPU"
    if provenance.version != version:
        yield f"the evidence was collected by flashcore-ci {provenance.version}, and this is {version}"


def _refuse(problems: tuple[str, ...]) -> None:
    if problems:
        raise UnmetError("\n".join(problems), fix="run the GPU job on this commit until it is green, and read its summary")
