"""Bundles of two shards that a workflow signed are merged and required. Everything less is refused."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from evidence_factories import good_observation, make_evidence, make_provenance
from replayed import ROOT, environ
from repository import READINGS, Repository

from flashcore_ci import __version__
from flashcore_ci.adapters import clock
from flashcore_ci.model.reading import Measured
from flashcore_ci.run import shards
from flashcore_ci.store import shard_files
from flashcore_ci.store.run import pack, prepare_run, write_run

SIGNER = "https://github.com/flashcore/flashcore-ci/.github/workflows/trusted.yml@refs/heads/main"
RUN = "https://github.com/flashcore/flashcore-ci/actions/runs/7"
SIGNED = ("--statements", "signed", "--signer", SIGNER)
SPLIT = ("params = { n = 4096 }", "cases = [{ n = 4096 }, { n = 8192 }]")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository of two workloads, and `gh` with a table of what was signed."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gh").write_text(f'#!/bin/sh\nexec {sys.executable} -E -S {ROOT / "tests/functional/fakes/gh.py"} "$@"\n')
    (tools / "gh").chmod(0o755)
    (tmp_path / "signed.json").write_text("{}")
    here = {**environ(), "PYTHONPATH": str(ROOT), "GH_TOKEN": "t", "SIGNED": str(tmp_path / "signed.json")}
    made = Repository(tmp_path / "repository", {**here, "PATH": f"{tools}:{here['PATH']}"})
    made.edit("gates/hopper.toml", *SPLIT)
    made.commit("two workloads")
    return made


@pytest.fixture
def bundles(repository: Repository) -> list[Path]:
    """One bundle per shard that the command cut, with made-up measurements and a statement. The workflow signed both files."""
    out = repository.folder / "runs"
    assert repository.tool("shard", "--gpus", "2", "--out", out / "shards").returncode == 0
    plan, builds = repository.built()
    commit = repository.git("rev-parse", "HEAD")
    (repository.folder / "runs/signed").mkdir()
    found, signed = [], {}
    for file in sorted((out / "shards").glob("shard-*.json")):
        part = shards.part_of(plan, shard_files.read(file), commit)
        readings = tuple((name, Measured(value=0.0, unit=unit)) for name, unit in READINGS)
        seen = tuple(good_observation(plan, builds[0], unit.kind, unit.workload, readings=readings) for unit in part.shard.units)
        provenance = make_provenance(commit=commit, version=__version__, collected_at=clock.now())
        evidence = make_evidence(provenance=provenance, builds=builds, observations=seen)
        prepare_run(out / file.stem, plan)
        write_run(out / file.stem, plan, replace(evidence, shard=part.shard))
        found.append(out / f"{file.stem}.tar.xz")
        pack(out / file.stem, found[-1])
        signed.update(sign(repository, found[-1], commit))
    Path(repository.environment["SIGNED"]).write_text(json.dumps(signed))
    return found


def sign(repository: Repository, bundle: Path, commit: str) -> dict[str, object]:
    """Write the statement as a job of run 7 does, and return what `gh` knows after it."""
    statement = repository.folder / "runs/signed" / f"{bundle.name}.json"
    job = Repository.__new__(Repository)
    job.folder = repository.folder
    job.environment = {**repository.environment, "GITHUB_ACTIONS": "true", "GITHUB_SHA": commit}
    job.environment |= {"GITHUB_REPOSITORY": "flashcore/flashcore-ci", "GITHUB_RUN_ID": "7"}
    assert job.tool("statement", bundle, statement).returncode == 0
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (bundle, statement)]
    certificate = {
        "sourceRepositoryURI": "https://github.com/flashcore/flashcore-ci",
        "subjectAlternativeName": SIGNER,
        "sourceRepositoryDigest": commit,
        "runnerEnvironment": "github-hosted",
        "runInvocationURI": f"{RUN}/attempts/1",
    }
    predicate = json.loads(statement.read_bytes())["predicate"]
    subjects = [{"digest": {"sha256": digest}} for digest in digests]
    content = {"predicateType": "urn:flashcore-ci:evidence:v1", "subject": subjects, "predicate": predicate}
    return {digest: [{"signature": {"certificate": certificate}, "statement": content}] for digest in digests}


def merged(repository: Repository, bundles: list[Path], *options: str) -> tuple[int, str]:
    signed = tuple(str(repository.folder / "runs/signed") if word == "signed" else word for word in options)
    done = repository.tool("merge", *bundles, "--shards", "runs/shards", *signed, "--out", "runs/merged")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def required(repository: Repository) -> tuple[int, str]:
    done = repository.tool("require", "runs/merged")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_only_a_whole_signed_merge_is_green(repository: Repository, bundles: list[Path]) -> None:
    assert len(bundles) == 2
    status, said = merged(repository, bundles, *SIGNED)
    assert (status, "verified. Judge" in said, "unverified" in said) == (0, True, False), said
    assert required(repository)[0] == 0
    assert merged(repository, bundles[1:], *SIGNED)[0] == 0
    status, said = required(repository)
    assert (status, "no-evidence" in said) == (11, True), said
    assert merged(repository, bundles)[0] == 0
    status, said = required(repository)
    assert (status, "merged from bundles without signed statements" in said) == (11, True), said


def test_a_statement_that_its_author_wrote_is_refused(repository: Repository, bundles: list[Path]) -> None:
    Path(repository.environment["SIGNED"]).write_text("{}")
    status, said = merged(repository, bundles, *SIGNED)
    assert (status, "unsigned-bundle: gh cannot verify it: gh: no attestations found" in said) == (11, True), said
    assert not (repository.folder / "runs/merged").exists()
    assert merged(repository, bundles, *SIGNED[:2])[0] == 2
    assert merged(repository, bundles, *SIGNED[2:])[0] == 2
