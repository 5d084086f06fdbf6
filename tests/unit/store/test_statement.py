from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from stored import EVIDENCE, PLAN

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store import statement
from flashcore_ci.store.run import Run, files_of, read_run

TOOLCHAIN, INVOCATION = "b" * 64, "https://github.com/flashcore/flashcore-ci/actions/runs/1"


def stated(path: Path, **changes: str) -> bytes:
    bundle = hashlib.sha256(path.read_bytes()).hexdigest()
    values = {"bundle": bundle, "toolchain": TOOLCHAIN, "invocation": INVOCATION, **changes}
    return statement.statement_of(read_run(path), files_of(path), **values)


def test_it_is_an_in_toto_statement(packed: Path) -> None:
    found = json.loads(stated(packed))
    assert (found["_type"], found["predicateType"]) == ("https://in-toto.io/Statement/v1", statement.PREDICATE_TYPE)
    assert set(found) == {"_type", "subject", "predicateType", "predicate"}
    assert all(set(each) == {"name", "digest"} and each["digest"] for each in found["subject"])
    names = [each["name"] for each in found["subject"]]
    assert len(names) == len(set(names))


def test_subjects_are_digests_and_commit_and_materials_are_toolchain_and_suite(packed: Path) -> None:
    found, files = json.loads(stated(packed)), files_of(packed)
    subjects = {each["name"]: each["digest"] for each in found["subject"]}
    assert subjects["bundle"] == {"sha256": hashlib.sha256(packed.read_bytes()).hexdigest()}
    assert subjects["commit"] == {"gitCommit": EVIDENCE.provenance.commit}
    for name in ("manifest.json", "evidence.json", "plan.json"):
        assert subjects[name] == {"sha256": hashlib.sha256(files[name]).hexdigest()}
    (build,) = EVIDENCE.builds
    for entry in build.entries:
        assert subjects[f"entry/{build.subject}/{entry.symbol}"] == {"machineCode": entry.digest}
    materials = {each["name"]: each["digest"] for each in found["predicate"]["materials"]}
    assert materials == {"toolchain.lock": {"sha256": TOOLCHAIN}, "plan.json": subjects["plan.json"]}
    assert found["predicate"]["suite"] == {"name": PLAN.suite, "file": PLAN.suite_file}


def test_the_same_run_gives_the_same_bytes_in_a_folder_too(run: Path, packed: Path) -> None:
    bundle = hashlib.sha256(packed.read_bytes()).hexdigest()
    again = statement.statement_of(read_run(run), files_of(run), bundle=bundle, toolchain=TOOLCHAIN, invocation=INVOCATION)
    assert again == stated(packed)
    assert statement.differences(again, stated(packed)) == ()


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"bundle": "0" * 64}, "subject"), ({"toolchain": "0" * 64}, "materials"), ({"invocation": "elsewhere"}, "invocation")],
)
def test_a_statement_of_something_else_is_named(packed: Path, changes: dict[str, str], part: str) -> None:
    assert statement.differences(stated(packed, **changes), stated(packed)) == (
        f"the statement's {part} is not that of the evidence",
    )


@pytest.mark.parametrize("given", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"predicate": 3}', b'"' * 9])
def test_what_is_not_a_statement_is_one_line(packed: Path, given: bytes) -> None:
    problems = statement.differences(given, stated(packed))
    assert problems
    assert all("\n" not in line for line in problems)
    assert statement.invocation_of(given) == ""


def test_other_bytes_with_the_same_content_are_refused(packed: Path) -> None:
    right = stated(packed)
    compact = json.dumps(json.loads(right)).encode()
    twice = right.replace(b'"predicateType":', b'"predicateType": "evil",\n "predicateType":', 1)
    for given in (compact, right + b" ", twice):
        assert statement.differences(given, right) == ("the statement has other bytes than the evidence gives",)


def test_the_predicate_alone_is_that_of_the_statement(packed: Path) -> None:
    assert json.loads(statement.predicate_of(stated(packed))) == json.loads(stated(packed))["predicate"]
    assert statement.invocation_of(stated(packed)) == INVOCATION


def test_without_a_commit_there_is_nothing_to_state(packed: Path) -> None:
    evidence = replace(EVIDENCE, provenance=replace(EVIDENCE.provenance, commit=""))
    run = Run(plan=PLAN, evidence=evidence)
    with pytest.raises(EvidenceError, match="no commit"):
        statement.statement_of(run, files_of(packed), bundle="", toolchain="")
