"""Write and check the in-toto statement of a run, and verify its signature with GitHub's `gh`."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from flashcore_ci.adapters import process
from flashcore_ci.bounded import files as bounded
from flashcore_ci.bounded.values import loads
from flashcore_ci.build import toolchain
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, UnmetError, UsageError
from flashcore_ci.run import github, host, streams
from flashcore_ci.store import bundle
from flashcore_ci.store import statement as statements
from flashcore_ci.store.files import write_atomically
from flashcore_ci.store.run import Run, holds, read_run, read_whole

SIGNER = re.compile(r"(https://[\w.:-]+/([\w.-]+/[\w.-]+)/)\.github/workflows/[\w.-]+\.ya?ml@refs/heads/[\w./-]+", re.ASCII)
FIX = "run the GPU job on this commit, and take the statement and the evidence from one run"


def write(run: Path, file: Path, environ: Mapping[str, str], *, predicate: Path | None = None) -> None:
    """Write the statement, and its predicate alone for a tool that signs. UsageError if a file is there and differs.

    On GitHub the evidence must be of the job's commit, without local changes: UnmetError otherwise.
    """
    _refuse_other_commit(run, environ)
    content = expected(run, invocation=github.invocation(environ))
    contents = {file: content, **({predicate: statements.predicate_of(content)} if predicate else {})}
    for path, data in contents.items():
        if os.path.lexists(path) and not holds(path, data):
            raise UsageError(f"{path} exists and is not the statement of this run", fix="give another file name")
    for path, data in contents.items():
        write_atomically(path, data)


def demand(run: Path, file: Path, *, invocation: str = "") -> Run:
    """Return ``run``. UnmetError unless ``file`` is its statement, by the workflow run ``invocation`` if given."""
    given = read(file)
    content, right = _read_with_statement(run, invocation or statements.invocation_of(given))
    if problems := statements.differences(given, right):
        raise UnmetError("\n".join(problems), fix=FIX)
    return content


def demand_signed(bundled: Path, file: Path, *, signer: str, invocation: str = "") -> None:
    """Demand that ``signer`` signed run and statement together, in the workflow run that the statement names. UnmetError otherwise.

    The statement alone proves nothing: any author can write it.
    """
    if (found := SIGNER.fullmatch(signer)) is None:
        fix = "--signer https://github.com/OWNER/REPOSITORY/.github/workflows/trusted.yml@refs/heads/main"
        raise UsageError(f"this is not the identity of a workflow on a branch: {signer[:200]!r}", fix=fix)
    try:
        packed = bounded.read(bundled, limit=bundle.MAX_PACKED_BYTES)
    except OSError as error:
        raise _unsigned(bundled, f"it cannot be read: {error.strerror}") from None
    demand(bundled, file, invocation=invocation)
    given = read(file)
    content, named = loads(given, max_text=statements.MAX_BYTES), statements.invocation_of(given)
    if not named.startswith(f"{found[1]}actions/runs/"):
        raise _unsigned(bundled, f"its statement names no workflow run of {found[2]}")
    commit = next(each["digest"]["gitCommit"] for each in content["subject"] if each["name"] == statements.COMMIT)
    digests = {hashlib.sha256(data).hexdigest() for data in (packed, given)}
    for path in (bundled, file):
        try:
            fits = any(
                each["verificationResult"]["signature"]["certificate"]["runInvocationURI"].startswith(f"{named}/attempts/")
                and {one["digest"]["sha256"] for one in each["verificationResult"]["statement"]["subject"]} == digests
                and each["verificationResult"]["statement"]["predicate"] == content["predicate"]
                for each in loads(_attestations(path, found[2], signer, commit), max_text=statements.MAX_BYTES)
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _unsigned(path, "the answer of gh cannot be read") from None
        if not fits:
            raise _unsigned(path, f"no signature is of {named} and of exactly these two files")


def _attestations(path: Path, repository: str, signer: str, commit: str) -> str:
    flags = ["--repo", repository, "--cert-identity", signer, "--source-digest", commit]
    flags += ["--predicate-type", statements.PREDICATE_TYPE, "--format", "json", "--deny-self-hosted-runners"]
    with host.scratch_folder() as logs:
        try:
            done = process.run(("gh", "attestation", "verify", path.absolute(), *flags), logs=logs, name="gh", timeout=300.0)
        except CannotCollectError as error:
            raise CannotCollectError(str(error), fix="install GitHub's command line: https://cli.github.com") from None
        if done.returncode != 0:
            raise _unsigned(path, f"gh cannot verify it: {(done.last_lines() or ['no output'])[-1][:200]}")
        return done.text()


def _unsigned(path: Path, what: str) -> UnmetError:
    return UnmetError(f"{path}: {Code.UNSIGNED_BUNDLE}: {what}", fix=NEXT_STEP[Code.UNSIGNED_BUNDLE])


def expected(run: Path, *, invocation: str) -> bytes:
    """Return the statement that belongs to ``run``. EvidenceError if it is not whole."""
    return _read_with_statement(run, invocation)[1]


def _read_with_statement(run: Path, invocation: str) -> tuple[Run, bytes]:
    content, files = read_whole(run)
    packed = bundle.pack_files(files) if run.is_dir() else run.read_bytes()
    digest = hashlib.sha256(packed).hexdigest()
    lock = toolchain.lock_digest(toolchain.version_with({build.compiler for build in content.evidence.builds}))
    return content, statements.statement_of(content, files, bundle=digest, toolchain=lock, invocation=invocation)


def _refuse_other_commit(run: Path, environ: Mapping[str, str]) -> None:
    provenance, here = read_run(run).evidence.provenance, environ.get("GITHUB_SHA", "")
    if streams.is_github(environ) and (provenance.commit != here or provenance.dirty):
        changes = " with uncommitted changes" if provenance.dirty else ""
        problem = f"the evidence is of {provenance.commit[:12] or 'no commit'}{changes}, and this job is for {here[:12]}"
        raise UnmetError(problem, fix=FIX)


def read(file: Path) -> bytes:
    """Read a statement of bounded size from a plain file."""
    if file.is_symlink() or not file.is_file():
        raise EvidenceError(f"{file} is not a plain file", fix="give the file that `flashcore-ci statement` wrote")
    with file.open("rb") as stream:
        return stream.read(statements.MAX_BYTES + 1)
