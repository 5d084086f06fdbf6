"""A statement that anyone can write again is no signature: `gh` must name the workflow, its run, and both files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evidence_factories import good_evidence
from factories import make_plan

from flashcore_ci.model.errors import CannotCollectError, UnmetError, UsageError
from flashcore_ci.run import statement as statements
from flashcore_ci.store.run import pack, prepare_run, write_run

RUN = "https://github.com/flashcore/flashcore-ci/actions/runs/12"
SIGNER = "https://github.com/flashcore/flashcore-ci/.github/workflows/trusted.yml@refs/heads/main"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    prepare_run(tmp_path / "run", make_plan())
    write_run(tmp_path / "run", make_plan(), good_evidence(make_plan()))
    pack(tmp_path / "run", tmp_path / "a.tar.xz")
    return tmp_path / "a.tar.xz"


@pytest.fixture
def statement(bundle: Path) -> Path:
    file = bundle.with_name("a.json")
    file.write_bytes(statements.expected(bundle, invocation=RUN))
    return file


def attested(bundle: Path, statement: Path, *, run: str = f"{RUN}/attempts/1") -> dict[str, Any]:
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (bundle, statement)]
    signed = {
        "subject": [{"digest": {"sha256": each}} for each in digests],
        "predicate": json.loads(statement.read_bytes())["predicate"],
    }
    return {"verificationResult": {"signature": {"certificate": {"runInvocationURI": run}}, "statement": signed}}


def answering(monkeypatch: pytest.MonkeyPatch, text: str, *, status: int = 0) -> list[tuple[str, ...]]:
    """Let `gh` answer ``text``. Returns what it is asked."""
    calls: list[tuple[str, ...]] = []

    def run(argv: Any, **_: Any) -> Any:
        calls.append(tuple(map(str, argv)))
        return SimpleNamespace(returncode=status, text=lambda: text, last_lines=lambda: ["HTTP 404"])

    monkeypatch.setattr(statements.process, "run", run)
    return calls


def test_both_files_are_verified(bundle: Path, statement: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = attested(bundle, statement, run=f"{RUN}3/attempts/1")
    calls = answering(monkeypatch, json.dumps([other, attested(bundle, statement)]))
    statements.demand_signed(bundle, statement, signer=SIGNER)
    assert [call[3] for call in calls] == [str(bundle), str(statement)]
    flags = dict(zip(calls[0][4:-1:2], calls[0][5:-1:2], strict=True))
    commit = good_evidence(make_plan()).provenance.commit
    assert (flags["--cert-identity"], flags["--source-digest"], flags["--repo"]) == (SIGNER, commit, "flashcore/flashcore-ci")
    assert calls[0][-1] == "--deny-self-hosted-runners"


Forge = Callable[[dict[str, Any]], object]
FORGED: dict[str, Forge] = {
    "of another run": lambda it: it["signature"]["certificate"].update(runInvocationURI=f"{RUN}3/attempts/1"),
    "of no run": lambda it: it["signature"]["certificate"].clear(),
    "of other files": lambda it: it["statement"]["subject"].append({"digest": {"sha256": "0" * 64}}),
    "of one of the files": lambda it: it["statement"]["subject"].pop(),
    "of another predicate": lambda it: it["statement"].update(predicate={}),
    "of nothing": lambda it: it.clear(),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_signature_of_something_else_is_refused(
    what: str, bundle: Path, statement: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = attested(bundle, statement)
    FORGED[what](found["verificationResult"])
    answering(monkeypatch, json.dumps([found]))
    with pytest.raises(UnmetError, match="unsigned-bundle"):
        statements.demand_signed(bundle, statement, signer=SIGNER)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[1]", "[" * 10_000])
def test_an_answer_without_attestation_is_refused(
    text: str, bundle: Path, statement: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, text)
    with pytest.raises(UnmetError, match="unsigned-bundle"):
        statements.demand_signed(bundle, statement, signer=SIGNER)


def test_nothing_is_verified_without_gh_or_against_it(bundle: Path, statement: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, json.dumps([attested(bundle, statement)]), status=1)
    with pytest.raises(UnmetError, match="gh cannot verify it: HTTP 404"):
        statements.demand_signed(bundle, statement, signer=SIGNER)

    def absent(*_: Any, **__: Any) -> Any:
        raise CannotCollectError("cannot start gh", fix="flashcore-ci doctor")

    monkeypatch.setattr(statements.process, "run", absent)
    with pytest.raises(CannotCollectError, match="cannot start gh") as caught:
        statements.demand_signed(bundle, statement, signer=SIGNER)
    assert caught.value.fix.startswith("install GitHub's command line")


@pytest.mark.parametrize(
    "invocation", ["", "https://github.com/other/flashcore-ci/actions/runs/12", f"https://evil.example/{RUN}"]
)
def test_a_statement_must_name_a_run_of_the_signers_repository(
    invocation: str, bundle: Path, statement: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement.write_bytes(statements.expected(bundle, invocation=invocation))
    answering(monkeypatch, json.dumps([attested(bundle, statement, run=f"{invocation}/attempts/1")]))
    with pytest.raises(UnmetError, match="names no workflow run of flashcore/flashcore-ci"):
        statements.demand_signed(bundle, statement, signer=SIGNER)


def test_a_folder_has_no_signature(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bundle.with_name("run")
    file = folder.with_name("run.json")
    file.write_bytes(statements.expected(folder, invocation=RUN))
    calls = answering(monkeypatch, "[]")
    for path, why in {folder: "it is a folder", bundle.with_name("absent"): "No such file"}.items():
        with pytest.raises(UnmetError, match=f"unsigned-bundle: it cannot be read: {why}"):
            statements.demand_signed(path, file, signer=SIGNER)
    assert not calls


def test_another_statement_is_refused_before_gh_is_asked(bundle: Path, statement: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(monkeypatch, json.dumps([attested(bundle, statement)]))
    statement.write_bytes(statement.read_bytes() + b" ")
    with pytest.raises(UnmetError, match="other bytes"):
        statements.demand_signed(bundle, statement, signer=SIGNER)
    assert not calls


@pytest.mark.parametrize("signer", ["", "main", SIGNER.partition("@")[0], SIGNER.replace("heads/main", "tags/v1"), f"{SIGNER}\n"])
def test_a_signer_names_a_workflow_on_a_branch(signer: str) -> None:
    with pytest.raises(UsageError, match="not the identity of a workflow on a branch"):
        statements.demand_signed(Path("absent"), Path("absent"), signer=signer)
