"""What the one required check of a repository demands besides green gates: pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from flashcore_ci.adapters.git import Checkout
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.evidence import Provenance

SUCCESS = "success"
SHOWN = 12
"""How many digits of a commit people compare."""


def results(text: str) -> tuple[tuple[str, str], ...]:
    """Each needed job and its result, from GitHub's ``toJSON(needs)``. UsageError when the text is none, or names no job."""
    fix = "give the JSON of GitHub's needs context: --needs \"$NEEDS\", with NEEDS: ${{ toJSON(needs) }} in the step's env"
    try:
        jobs = json.loads(text)
        found = tuple((str(name), str(job["result"])) for name, job in jobs.items())
    except (ValueError, AttributeError, TypeError, KeyError):
        raise UsageError("--needs is no JSON of jobs and their results", fix=fix) from None
    if not found:
        raise UsageError("--needs names no job", fix=fix)
    return found


def unmet_jobs(jobs: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """A line for each job that did not succeed."""
    return tuple(f"job {name}: {_result(result)}" for name, result in jobs if result != SUCCESS)


def unmet_evidence(measured: Provenance, here: Checkout, *, version: str) -> tuple[str, ...]:
    """A line for everything that keeps these measurements from being those of this very checkout."""
    return tuple(_differences(measured, here, version))


def _differences(measured: Provenance, here: Checkout, version: str) -> Iterator[str]:
    if not here.commit:
        yield "this is no git checkout: there is no commit that the evidence could be of"
    elif measured.commit != here.commit:
        was = measured.commit[:SHOWN] or "no commit"
        yield f"the evidence is of {was}, and this checkout is at {here.commit[:SHOWN]}"
    if measured.dirty:
        yield "the evidence is of a checkout with changes that were not committed"
    if here.dirty:
        yield "this checkout has changes that are not committed"
    if measured.device is None:
        yield "the evidence names no GPU"
    if measured.version != version:
        yield f"the evidence was collected by flashcore-ci {measured.version}, and this is {version}"


def _result(result: str) -> str:
    return f"{result}, and a job that was skipped is no pass" if result == "skipped" else result
