"""Demand that this very workflow run, or a given earlier one, signed the evidence and its statement. Standard library and GitHub's `gh`.

`gh attestation verify` checks the signature and the flags below. The certificate is compared again here, field by field, because
the run id has no flag. One attestation must fit in all fields: two that each fit in part do not count.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from github_api import RefusedError

PREDICATE_TYPE = "urn:flashcore-ci:evidence:v1"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = "/.github/workflows/trusted.yml"
SECONDS = 300
MAX_BYTES = 256 << 20
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the signature must say."""

    server: str
    repository: str
    signer: str
    signer_digest: str
    ref: str
    commit: str
    run: int
    attempt: int

    def certificate(self) -> dict[str, str]:
        """Return the fields of the certificate, except the attempt."""
        signer = f"{self.server}/{self.signer}"
        return {
            "issuer": ISSUER,
            "subjectAlternativeName": signer,
            "buildSignerURI": signer,
            "buildSignerDigest": self.signer_digest,
            "sourceRepositoryURI": f"{self.server}/{self.repository}",
            "sourceRepositoryRef": self.ref,
            "sourceRepositoryDigest": self.commit,
            "runnerEnvironment": "github-hosted",
        }


def main(environ: Mapping[str, str]) -> int:
    """Return the exit status of the step."""
    try:
        expected = read(environ)
        evidence, statement = Path(environ["VERIFY_EVIDENCE"]), Path(environ["VERIFY_STATEMENT"])
        digests = {str(path): digest_of(path) for path in (evidence, statement)}
        for path in (evidence, statement):
            verify(path, set(digests.values()), statement.read_bytes(), expected)
    except (RefusedError, OSError, KeyError, ValueError, TypeError, RecursionError) as error:
        print(f"::error title=flashcore-ci::the signature does not count: {error or type(error).__name__}".replace("\n", " "))
        return 1
    print(f"signed by {expected.signer} at {expected.signer_digest[:12]}, run {expected.run}")
    return 0


def read(environ: Mapping[str, str]) -> Expected:
    """Read what is expected. RefusedError if the signing workflow is not that of the protected branch."""
    repository, _, ref = environ["VERIFY_SIGNER"].partition("@")
    if not repository.endswith(WORKFLOW) or ref != environ["VERIFY_PROTECTED"] or not ref.startswith("refs/heads/"):
        raise RefusedError(f"this workflow is {environ['VERIFY_SIGNER']!r}: call trusted.yml at {environ['VERIFY_PROTECTED']}")
    given = {name: environ.get(f"VERIFY_{name}", "") for name in ("COMMIT", "REF", "RUN", "ATTEMPT")}
    if any(given.values()) and not all(given.values()):
        raise RefusedError("an earlier run is named by its commit, ref, id and attempt")
    commit = given["COMMIT"] or environ["GITHUB_SHA"]
    for name in (environ["VERIFY_SIGNER_DIGEST"], commit):
        if not COMMIT.fullmatch(name):
            raise RefusedError(f"{name!r} is not a commit")
    return Expected(
        server=environ["GITHUB_SERVER_URL"],
        repository=environ["GITHUB_REPOSITORY"],
        signer=environ["VERIFY_SIGNER"],
        signer_digest=environ["VERIFY_SIGNER_DIGEST"],
        ref=given["REF"] or environ["GITHUB_REF"],
        commit=commit,
        run=int(given["RUN"] or environ["GITHUB_RUN_ID"]),
        attempt=int(given["ATTEMPT"] or environ["GITHUB_RUN_ATTEMPT"]),
    )


def verify(path: Path, digests: set[str], statement: bytes, expected: Expected) -> None:
    """Raise RefusedError unless one attestation of ``path`` fits in every field."""
    done = subprocess.run(arguments(path, expected), check=False, capture_output=True, timeout=SECONDS)
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", errors="replace").split("\n")
        raise RefusedError(f"gh attestation verify {path}: {lines[0] or done.returncode}")
    attestations = json.loads(done.stdout)
    if not isinstance(attestations, list) or not attestations:
        raise RefusedError(f"{path} has no attestation")
    problems = [next(mismatches(each["verificationResult"], digests, statement, expected), "") for each in attestations]
    if all(problems):
        raise RefusedError(f"{path}: {problems[0]}")


def arguments(path: Path, expected: Expected) -> list[str]:
    """Return the command line of `gh`. ``--cert-identity`` is exact, while ``--signer-workflow`` accepts any ref."""
    flags = {
        "--repo": expected.repository,
        "--cert-identity": f"{expected.server}/{expected.signer}",
        "--signer-digest": expected.signer_digest,
        "--source-ref": expected.ref,
        "--source-digest": expected.commit,
        "--predicate-type": PREDICATE_TYPE,
        "--format": "json",
    }
    given = [word for pair in flags.items() for word in pair]
    return ["gh", "attestation", "verify", str(path), *given, "--deny-self-hosted-runners"]


def mismatches(result: Mapping[str, Any], digests: set[str], statement: bytes, expected: Expected) -> Iterator[str]:
    """Yield what does not fit in one verified attestation."""
    certificate, signed = result["signature"]["certificate"], result["statement"]
    for name, value in expected.certificate().items():
        if certificate.get(name) != value:
            yield f"{name} is {certificate.get(name)!r}, and {value!r} is expected"
    if not any(certificate.get("runInvocationURI") == uri for uri in invocations(expected)):
        yield f"it was signed in {certificate.get('runInvocationURI')!r}, and not in an attempt of run {expected.run}"
    if signed.get("_type") != STATEMENT_TYPE or signed.get("predicateType") != PREDICATE_TYPE:
        yield f"the predicate is {signed.get('predicateType')!r}"
    if {subject["digest"].get("sha256") for subject in signed["subject"]} != digests:
        yield "it is of other files"
    if json.loads(statement).get("predicate") != signed.get("predicate"):
        yield "the signed predicate is not that of the statement"


def invocations(expected: Expected) -> Iterator[str]:
    """Yield the addresses of this run's attempts up to this one. Jobs that are not run again keep their earlier attempt."""
    run = f"{expected.server}/{expected.repository}/actions/runs/{expected.run}"
    return (f"{run}/attempts/{attempt}" for attempt in range(1, expected.attempt + 1))


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a plain file of bounded size."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
        raise RefusedError(f"{path} is not a plain file")
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(os.environ))
