"""A signature of something else: another workflow, ref, commit, run, attempt, repository, machine, file or predicate.

The stand-in of `gh` accepts everything, so only what `verify.py` compares itself stops an attack.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from scripts import script

verify = script("verify")
REPOSITORY, COMMIT, SIGNER_COMMIT = "flashcore/flashcore-ci", "c" * 40, "a" * 40
SIGNER = f"{REPOSITORY}/.github/workflows/trusted.yml@refs/heads/main"
RUN = f"https://github.com/{REPOSITORY}/actions/runs/12/attempts"
PREDICATE = {"invocation": RUN, "materials": []}
CERTIFICATE = {
    "issuer": "https://token.actions.githubusercontent.com",
    "subjectAlternativeName": f"https://github.com/{SIGNER}",
    "buildSignerURI": f"https://github.com/{SIGNER}",
    "buildSignerDigest": SIGNER_COMMIT,
    "sourceRepositoryURI": f"https://github.com/{REPOSITORY}",
    "sourceRepositoryRef": "refs/pull/7/merge",
    "sourceRepositoryDigest": COMMIT,
    "runnerEnvironment": "github-hosted",
    "runInvocationURI": f"{RUN}/2",
}
ENVIRON = {
    "VERIFY_SIGNER": SIGNER,
    "VERIFY_SIGNER_DIGEST": SIGNER_COMMIT,
    "VERIFY_PROTECTED": "refs/heads/main",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": REPOSITORY,
    "GITHUB_REF": "refs/pull/7/merge",
    "GITHUB_SHA": COMMIT,
    "GITHUB_RUN_ID": "12",
    "GITHUB_RUN_ATTEMPT": "2",
}
Change = Callable[[dict[str, Any]], object]


def _world(folder: Path) -> dict[str, Any]:
    """Write evidence and statement, and return what is signed and asked."""
    evidence, statement = folder / "gpu.tar.xz", folder / "statement.json"
    evidence.write_bytes(b"evidence")
    statement.write_text(json.dumps({"predicate": PREDICATE}))
    subjects = [{"name": f.name, "digest": {"sha256": hashlib.sha256(f.read_bytes()).hexdigest()}} for f in (evidence, statement)]
    signed = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "urn:flashcore-ci:evidence:v1",
        "predicate": copy.deepcopy(PREDICATE),
    }
    result = {"signature": {"certificate": dict(CERTIFICATE)}, "statement": signed}
    environ = {**ENVIRON, "VERIFY_EVIDENCE": str(evidence), "VERIFY_STATEMENT": str(statement)}
    return {"results": [result], "environ": environ, "folder": folder}


def _accepts(world: dict[str, Any]) -> bool:
    output = world.get("output", json.dumps([{"verificationResult": result} for result in world["results"]]))
    done = subprocess.CompletedProcess([], world.get("status", 0), stdout=output.encode(), stderr=b"no\nmore")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify.subprocess, "run", lambda *_, **__: done)
        return verify.main(world["environ"]) == 0


def _attack(name: str, change: Change) -> Attack:
    def attempt(folder: Path) -> bool:
        world = _world(folder)
        assert _accepts(world), "what is signed rightly must pass"
        change(world)
        return _accepts(world)

    return Attack(name=name, attempt=attempt)


def _field(name: str, value: Any) -> Change:
    return lambda world: world["results"][0]["signature"]["certificate"].update({name: value})


def _signed(name: str, value: Any) -> Change:
    return lambda world: world["results"][0]["statement"].update({name: value})


def _environ(**changes: str) -> Change:
    return lambda world: world["environ"].update(changes)


def _absent(name: str) -> Change:
    return lambda world: world["results"][0]["signature"]["certificate"].pop(name)


def _halves(world: dict[str, Any]) -> None:
    """Two attestations that fit in different fields."""
    other = copy.deepcopy(world["results"][0])
    world["results"][0]["signature"]["certificate"]["sourceRepositoryDigest"] = "b" * 40
    other["signature"]["certificate"]["runInvocationURI"] = f"{RUN[:-11]}13/attempts/1"
    world["results"].append(other)


def _link(world: dict[str, Any]) -> None:
    evidence = world["folder"] / "gpu.tar.xz"
    evidence.rename(world["folder"] / "elsewhere")
    evidence.symlink_to(world["folder"] / "elsewhere")


def _other_file(world: dict[str, Any]) -> None:
    (world["folder"] / "gpu.tar.xz").write_bytes(b"other evidence")


def _other_statement(world: dict[str, Any]) -> None:
    (world["folder"] / "statement.json").write_text(json.dumps({"predicate": {**PREDICATE, "materials": [1]}}))


GITHUB = "https://github.com"
ATTACKS = (
    _attack(
        "the branch's own workflow",
        _field("subjectAlternativeName", f"{GITHUB}/{REPOSITORY}/.github/workflows/gate.yml@refs/pull/7/merge"),
    ),
    _attack("the trusted workflow on a branch", _field("subjectAlternativeName", f"{GITHUB}/{SIGNER[:-4]}evil")),
    _attack("a branch whose name begins like main", _field("subjectAlternativeName", f"{GITHUB}/{SIGNER}-evil")),
    _attack("a workflow whose name begins so", _field("buildSignerURI", f"{GITHUB}/{SIGNER.replace('.yml', '.yml.yml')}")),
    _attack("a tag named main", _field("buildSignerURI", f"{GITHUB}/{SIGNER.replace('heads', 'tags')}")),
    _attack("another server", _field("subjectAlternativeName", f"https://github.com.evil.org/{SIGNER}")),
    _attack("an older version of the trusted workflow", _field("buildSignerDigest", "b" * 40)),
    _attack("a commit that begins the same", _field("buildSignerDigest", SIGNER_COMMIT[:12])),
    _attack("a repository of the same name", _field("sourceRepositoryURI", f"{GITHUB}/somebody/flashcore-ci")),
    _attack("a repository whose name begins so", _field("sourceRepositoryURI", f"{GITHUB}/{REPOSITORY}-scratch")),
    _attack("another pull request", _field("sourceRepositoryRef", "refs/pull/77/merge")),
    _attack("a branch", _field("sourceRepositoryRef", "refs/heads/evil")),
    _attack("another commit", _field("sourceRepositoryDigest", "b" * 40)),
    _attack("the pull request's head", _field("sourceRepositoryDigest", COMMIT.upper())),
    _attack("a machine of its own", _field("runnerEnvironment", "self-hosted")),
    _attack("another issuer", _field("issuer", "https://accounts.example.org")),
    _attack("an issuer that begins so", _field("issuer", f"{CERTIFICATE['issuer']}.evil.org")),
    _attack("another run of the commit", _field("runInvocationURI", f"{RUN.replace('/12/', '/13/')}/1")),
    _attack("a run whose number begins so", _field("runInvocationURI", f"{RUN.replace('/12/', '/121/')}/1")),
    _attack("an attempt that is still to come", _field("runInvocationURI", f"{RUN}/3")),
    _attack("attempt 0", _field("runInvocationURI", f"{RUN}/0")),
    _attack("an attempt that begins so", _field("runInvocationURI", f"{RUN}/20")),
    _attack("a run of another repository", _field("runInvocationURI", f"{RUN.replace('flashcore/', 'somebody/')}/1")),
    _attack("no run", _absent("runInvocationURI")),
    _attack("no signer's commit", _absent("buildSignerDigest")),
    _attack("a null for the repository", _field("sourceRepositoryURI", None)),
    _attack("a list for the ref", _field("sourceRepositoryRef", ["refs/pull/7/merge"])),
    _attack("provenance of a build only", _signed("predicateType", "https://slsa.dev/provenance/v1")),
    _attack("an old kind of statement", _signed("_type", "https://in-toto.io/Statement/v0.1")),
    _attack("the evidence without its statement", lambda world: world["results"][0]["statement"]["subject"].pop()),
    _attack(
        "one more file",
        lambda world: world["results"][0]["statement"]["subject"].append({"name": "x", "digest": {"sha256": "0"}}),
    ),
    _attack("a predicate of other tools", _signed("predicate", {"invocation": RUN, "materials": ["other"]})),
    _attack("evidence that was replaced", _other_file),
    _attack("a statement that was replaced", _other_statement),
    _attack("two signatures that fit in part", _halves),
    _attack("a link to the evidence", _link),
    _attack("called by a local path", _environ(VERIFY_SIGNER=SIGNER.replace("refs/heads/main", "refs/pull/7/merge"))),
    _attack("another workflow file", _environ(VERIFY_SIGNER=SIGNER.replace("trusted", "gate"))),
    _attack("another commit of the job", _environ(GITHUB_SHA="b" * 40)),
    _attack("another run of the job", _environ(GITHUB_RUN_ID="13")),
)
VALUES = ("", " ", "null", "*", "refs/heads/main", "b" * 40, "github-hosted ", "https://github.com", None, 7, ["x"], {"x": "y"})


def _member(numbers: random.Random) -> Attack:
    name = numbers.choice(sorted(CERTIFICATE))
    right = CERTIFICATE[name]
    place = numbers.randrange(len(right))
    near = (
        right[:place] + right[place + 1 :],
        right + numbers.choice("0x/ @"),
        right.swapcase(),
        right[: place or 1],
        f" {right}",
    )
    value = numbers.choice([value for value in (*near, *VALUES) if value != right])
    if name == "runInvocationURI" and value == f"{RUN}/1":
        value = f"{RUN}/11"
    return _attack(f"{name} = {value!r}", _field(name, value))


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flags of `gh` alone, as they were: nothing is compared here."""
    expected = verify.read({**ENVIRON})
    monkeypatch.setattr(verify, "mismatches", lambda *_: iter(()))
    monkeypatch.setattr(verify, "read", lambda _: expected)
    monkeypatch.setattr(verify, "digest_of", lambda path: hashlib.sha256(path.read_bytes()).hexdigest())


CLASS = AttackClass(name="signature forged", attacks=ATTACKS, member=_member, mutant=_mutant)
