"""Write and check the in-toto statement of a run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from flashcore_ci.build import toolchain
from flashcore_ci.model.errors import EvidenceError, UnmetError, UsageError
from flashcore_ci.run import github, streams
from flashcore_ci.store import bundle
from flashcore_ci.store import statement as statements
from flashcore_ci.store.files import write_atomically
from flashcore_ci.store.run import files_of, holds, read_run

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


def demand(run: Path, file: Path, *, invocation: str = "") -> None:
    """Raise UnmetError unless ``file`` is the statement of ``run``, by the workflow run ``invocation`` if given."""
    given = read(file)
    right = expected(run, invocation=invocation or statements.invocation_of(given))
    if problems := statements.differences(given, right):
        raise UnmetError("\n".join(problems), fix=FIX)


def expected(run: Path, *, invocation: str) -> bytes:
    """Return the statement that belongs to ``run``. EvidenceError if it is not whole."""
    content, files = read_run(run), files_of(run)
    packed = bundle.pack_files(files) if run.is_dir() else run.read_bytes()
    digest = hashlib.sha256(packed).hexdigest()
    lock = toolchain.lock_digest(toolchain.version_with({build.compiler for build in content.evidence.builds}))
    return statements.statement_of(content, files, bundle=digest, toolchain=lock, invocation=invocation)


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
