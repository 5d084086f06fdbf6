from __future__ import annotations

import json

import pytest
from evidence_factories import make_provenance

from flashcore_ci.adapters.git import Checkout
from flashcore_ci.model.errors import UsageError
from flashcore_ci.run import required_check

HERE = Checkout(commit=make_provenance().commit, dirty=False)


def unmet(here: Checkout = HERE, **changes: object) -> tuple[str, ...]:
    measured = make_provenance(**changes)
    return required_check.unmet_evidence(measured, here, version=make_provenance().version)


@pytest.mark.parametrize("result", ["failure", "cancelled", "skipped", "", "Success", "neutral"])
def test_only_success_is_success(result: str) -> None:
    jobs = required_check.job_results(json.dumps({"ci": {"result": "success", "outputs": {}}, "gpu": {"result": result}}))
    (line,) = required_check.unmet_jobs(jobs)
    assert line.startswith(f"job gpu: {result}")


def test_all_that_succeeded() -> None:
    assert required_check.unmet_jobs(required_check.job_results('{"ci": {"result": "success"}}')) == ()


@pytest.mark.parametrize(
    "needs",
    [
        *("", "{}", "[]", "null", '{"gpu": {}}', '{"gpu": "success"}', '{"gpu": null}', "gpu", "7", "[" * 100_000),
        *('{"gpu": {"result": ["success"]}}', '{"gpu": {"result": true}}'),
        '{"gpu": {"result": "failure"}, "gpu": {"result": "success"}}',
        '{"gpu": {"result": "failure", "result": "success"}}',
        '{"gpu": {"result": "failure"}, "\\u0067pu": {"result": "success"}}',
    ],
)
def test_needs_that_are_none_are_refused(needs: str) -> None:
    with pytest.raises(UsageError):
        required_check.job_results(needs)


SUCCEEDED = '{"ci": {"result": "success"}, "gpu": {"result": "success"}}'


def test_a_demanded_job_that_is_absent_is_named() -> None:
    results, demanded = required_check.demanded_results(SUCCEEDED, "ci gpu, attest")
    assert required_check.unmet_jobs(results, demanded) == ("job attest: demanded, and --needs has no such job",)
    assert required_check.unmet_jobs(*required_check.demanded_results(SUCCEEDED, "gpu ci")) == ()
    assert required_check.unmet_jobs(*required_check.demanded_results(None, None)) == ()


@pytest.mark.parametrize(
    ("needs", "demand"),
    [
        (SUCCEEDED, None),
        (None, "ci"),
        (SUCCEEDED, ""),
        (SUCCEEDED, " , "),
        (SUCCEEDED, "ci ci"),
        (SUCCEEDED, "*"),
    ],
)
def test_results_without_demanded_jobs_are_refused(needs: str | None, demand: str | None) -> None:
    with pytest.raises(UsageError, match="--demand"):
        required_check.demanded_results(needs, demand)


def test_evidence_of_this_very_commit() -> None:
    assert unmet() == ()


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ({"commit": "f" * 40}, "the evidence is of ffffffffffff, and this checkout is at 0123456789ab"),
        ({"commit": ""}, "of no commit"),
        ({"dirty": True}, "of a checkout with uncommitted changes"),
        ({"device": None}, "names no GPU"),
        ({"version": "0.0.1"}, "flashcore-ci 0.0.1"),
    ],
)
def test_evidence_that_cannot_be_this_commits(said: dict[str, object], because: str) -> None:
    (line,) = unmet(**said)
    assert because in line


@pytest.mark.parametrize(
    ("here", "because"),
    [
        (Checkout(commit="", dirty=False), "not a git checkout"),
        (Checkout(commit=HERE.commit, dirty=True), "this checkout has uncommitted changes"),
    ],
)
def test_a_checkout_that_is_no_commit(here: Checkout, because: str) -> None:
    (line,) = unmet(here)
    assert because in line


def test_no_commit_on_either_side_is_no_match() -> None:
    assert unmet(Checkout(commit="", dirty=False), commit="") != ()
