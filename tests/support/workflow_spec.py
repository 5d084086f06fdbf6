"""What the trusted workflow is made of: its events, rights and steps, as reviewed. ``workflow_policy`` compares."""

from __future__ import annotations

import re
from typing import Any

TRUSTED = "trusted.yml"
CALL = "OWNER/flashcore-ci/.github/workflows/trusted.yml@main"
EVENTS = {
    "gate.yml": {"pull_request": None, "merge_group": None},
    TRUSTED: {"workflow_call": None},
    "ci.yml": {"workflow_call": None, "push": {"branches": ["main"]}},
    "nightly.yml": {"schedule": [{"cron": "17 2 * * *"}], "workflow_dispatch": None},
}
FLOW_KEYS = {"name", "on", "permissions", "concurrency", "jobs"}
JOB_KEYS = {"name", "needs", "if", "runs-on", "timeout-minutes", "permissions", "outputs", "steps", "environment", "concurrency"}
JOB_KEYS |= {"uses", "strategy"}
STEP_KEYS = {"id", "if", "uses", "with", "run", "env"}
HOSTED, GPU = "ubuntu-24.04", ["self-hosted", "linux", "h100"]
RIGHTS = {
    ("gate.yml", "gate"): {
        **dict.fromkeys(("contents", "actions"), "read"),
        **dict.fromkeys(("id-token", "attestations", "pull-requests", "security-events"), "write"),
    },
    (TRUSTED, "attest"): {"contents": "read", "id-token": "write", "attestations": "write"},
    (TRUSTED, "decide"): {"contents": "read", "actions": "read", "attestations": "read"},
    (TRUSTED, "required"): {"contents": "read", "actions": "read", "attestations": "read"},
    (TRUSTED, "comment"): {"contents": "read", "attestations": "read", "pull-requests": "write"},
    ("nightly.yml", "history"): {"contents": "read", "actions": "read"},
    ("nightly.yml", "pages"): {"pages": "write", "id-token": "write"},
    (TRUSTED, "alerts"): {"contents": "read", "attestations": "read", "security-events": "write"},
}
"""Every other job reads the contents, and nothing else."""
NEEDS = {
    "ci": None,
    "decide": None,
    "gpu": ["ci", "decide"],
    "attest": "gpu",
    "required": ["ci", "decide", "gpu", "attest"],
    "comment": ["decide", "gpu", "attest", "required"],
    "alerts": ["gpu", "attest"],
}
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
SHELL_GRAMMAR = re.compile(r"[;&|<>`\n]|\$\(|\$\{")

EVIDENCE, STATEMENT = "${{ needs.gpu.outputs.evidence }}", "${{ needs.attest.outputs.statement }}"
BASE = "${{ github.event.pull_request.base.sha || github.event.merge_group.base_sha }}"
FILES = {"evidence": "measured/gpu.tar.xz", "statement": "stated/statement.json"}
HEAD = ("actions/checkout", {"persist-credentials": False, "fetch-depth": 0})
MAIN = (
    "actions/checkout",
    {"repository": "${{ job.workflow_repository }}", "ref": "${{ job.workflow_sha }}", "persist-credentials": False},
)
PYTHON = ("actions/setup-python", {"python-version": "3.11"})
GET_EVIDENCE = ("actions/download-artifact", {"artifact-ids": EVIDENCE, "path": "measured"})
GET_STATEMENT = ("actions/download-artifact", {"artifact-ids": STATEMENT, "path": "stated"})
SIGNER = {"signer": "${{ job.workflow_ref }}", "signer-digest": "${{ job.workflow_sha }}", "token": "${{ github.token }}"}
VERIFY = ("$/.github/actions/verify", {**FILES, **SIGNER})
BASE_FILES = {"evidence": "base/gpu.tar.xz", "statement": "base-stated/statement.json"}
FOUND = {
    name: f"${{{{ steps.measured.outputs.{name} }}}}" for name in ("evidence", "statement", "run", "attempt", "commit", "ref")
}
FOUND |= {"signer": "${{ steps.measured.outputs.signer-digest }}"}
DECIDED = {name: f"${{{{ needs.decide.outputs.{name} }}}}" for name in FOUND}


def _from_base(given: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Download the evidence of the base and its statement from another run, and verify that run's signature."""
    other = {"run-id": given["run"], "github-token": "${{ github.token }}"}
    earlier = {name: given[name] for name in ("run", "attempt", "commit", "ref")}
    return [
        ("actions/download-artifact", {"artifact-ids": given["evidence"], **other, "path": "base"}),
        ("actions/download-artifact", {"artifact-ids": given["statement"], **other, "path": "base-stated"}),
        ("$/.github/actions/verify", {**BASE_FILES, **SIGNER, "signer-digest": given["signer"], **earlier}),
    ]


JUDGE = ("$/.github/actions/judge", {"evidence": FILES["evidence"], "out": "judged"})
STEPS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "decide": [
        HEAD,
        (
            "$/.github/actions/measured",
            {"base": BASE, "workflow": "${{ job.workflow_ref }}", "token": "${{ github.token }}"},
        ),
        *_from_base(FOUND),
        PYTHON,
        ("$/.github/actions/needs-gpu", {**BASE_FILES, "base": BASE}),
    ],
    "gpu": [
        HEAD,
        (
            "$/.github/actions/gate",
            {"measure": "live", "base": BASE, "only": "${{ needs.decide.outputs.only }}", "out": "runs/gpu"},
        ),
        ("actions/upload-artifact", {"name": "evidence", "path": "${{ steps.gate.outputs.evidence }}"}),
        ("actions/upload-artifact", {"name": "reports"}),
    ],
    "attest": [
        GET_EVIDENCE,
        PYTHON,
        (
            "$/.github/actions/statement",
            {"evidence": FILES["evidence"], "out": FILES["statement"], "predicate": "stated/predicate.json"},
        ),
        (
            "actions/attest",
            {
                "subject-path": "".join(f"{file}\n" for file in FILES.values()),
                "predicate-type": "urn:flashcore-ci:evidence:v1",
                "predicate-path": "stated/predicate.json",
            },
        ),
        ("actions/upload-artifact", {"name": "statement", "path": FILES["statement"]}),
    ],
    "required": [
        (
            "$/.github/actions/attempts",
            {
                "commit": "${{ github.event.pull_request.head.sha || github.sha }}",
                "event": "${{ github.event_name }}",
                "workflow": "${{ job.workflow_ref }}",
                "most": "5",
                "token": "${{ github.token }}",
            },
        ),
        HEAD,
        GET_EVIDENCE,
        GET_STATEMENT,
        VERIFY,
        *_from_base(DECIDED),
        PYTHON,
        (
            "$/.github/actions/require",
            {
                **FILES,
                "needs": "${{ toJSON(needs) }}",
                "base": BASE,
                "base-evidence": "${{ needs.decide.outputs.only != '' && 'base/gpu.tar.xz' || '' }}",
                "base-statement": "${{ needs.decide.outputs.only != '' && 'base-stated/statement.json' || '' }}",
            },
        ),
        ("$/.github/actions/answered", {**BASE_FILES, "needs": "${{ toJSON(needs) }}", "base": BASE}),
    ],
    "comment": [
        *(MAIN, GET_EVIDENCE, GET_STATEMENT, VERIFY, PYTHON, JUDGE),
        (
            "$/.github/actions/comment",
            {
                "file": "judged/comment.md",
                "number": "${{ github.event.pull_request.number }}",
                "required": "${{ needs.required.result }}",
                "attempts": "${{ needs.required.outputs.attempts }}",
                "token": "${{ github.token }}",
            },
        ),
    ],
    "alerts": [
        *(MAIN, GET_EVIDENCE, GET_STATEMENT, VERIFY, PYTHON, JUDGE),
        (
            "github/codeql-action/upload-sarif",
            {
                "sarif_file": "judged/results.sarif",
                "category": "flashcore-ci",
                "ref": "${{ github.ref }}",
                "sha": "${{ github.sha }}",
            },
        ),
    ],
}
"""The steps of the trusted jobs: which action, and with what. ``retention-days`` and paths of reports are free."""
FREE = {"retention-days", "if-no-files-found"}
OUTPUTS = {
    "decide": {
        "needed": "${{ steps.decide.outputs.needed }}",
        "only": "${{ github.event_name == 'pull_request' && steps.decide.outputs.only || '' }}",
        **FOUND,
    },
    "gpu": {"evidence": "${{ steps.evidence.outputs.artifact-id }}"},
    "attest": {"statement": "${{ steps.statement.outputs.artifact-id }}"},
    "required": {"attempts": "${{ steps.attempts.outputs.attempts }}"},
}
IDS = {
    ("decide", 1): "measured",
    ("decide", 6): "decide",
    ("gpu", 1): "gate",
    ("gpu", 2): "evidence",
    ("attest", 4): "statement",
    ("required", 0): "attempts",
}

OWN, FORK = "flashcore/flashcore-ci", "somebody/flashcore-ci"
