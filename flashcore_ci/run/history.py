"""Add runs to the history: read, judge, and write each in a transaction of its own."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashcore_ci import __version__
from flashcore_ci.adapters import clock, git
from flashcore_ci.bounded import files
from flashcore_ci.collect import resources
from flashcore_ci.history.rows import NewRun, RunRows, rows_of
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.judge.references import References
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, FlashcoreError, UnmetError, UsageError
from flashcore_ci.model.evidence import Evidence, Provenance
from flashcore_ci.model.history import Commit, Standing
from flashcore_ci.model.suite import Waiver
from flashcore_ci.model.verdict import Origin, Report, StalePolicy
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import profiler_reports, references
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.rederive import rederived
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store import bundle
from flashcore_ci.store import statement as in_toto
from flashcore_ci.store.codec import canonical
from flashcore_ci.store.manifest import MANIFEST
from flashcore_ci.store.run import Run, pack, read_run
from flashcore_ci.suite.anchors import read_anchors
from flashcore_ci.suite.loader import load

if TYPE_CHECKING:
    from flashcore_ci.history.address import Address
    from flashcore_ci.history.writing import Added

ANSWER_SECONDS = 150.0
"""How long `gate --db` waits. It is more than any wait of the database's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """How runs are added: one ``statement`` per run for the branch ``protected``, or none. ``reviewed``: a person vouches for them."""

    db: str
    environ: Mapping[str, str]
    suite: Path
    statements: tuple[Path, ...] = ()
    protected: str = "origin/main"
    branch: str = ""
    reviewed: bool = False


def add(paths: Sequence[Path], how: Import, progress: Progress) -> Iterator[tuple[Path, Added]]:
    """Add runs, each in a transaction of its own. EvidenceError or UnmetError for one that does not count."""
    if how.statements and (len(how.statements) != len(paths) or how.reviewed):
        raise UsageError(
            "a statement belongs to one run", fix="give --statement once per RUN, in their order, without --reviewed"
        )
    for path, statement in zip(paths, how.statements or (None,) * len(paths), strict=True):
        progress(f"adding {path}")
        with scratch_folder() as scratch:
            rows = rows_of(_read(path, statement, how, scratch))
        yield path, _write(check_address(how.db, how.environ), rows)


def add_gate_run(out: Path, report: Report, db: str, environ: Mapping[str, str], *, suite: Path) -> str:
    """Add the run that a gate just judged. Return one line about what happened: an error changes no verdict."""
    later = f"The verdict stands. Later: flashcore-ci history add {out} --db URL"
    try:
        if not (out / MANIFEST).exists():
            return "not stored in the history: nothing was measured here"
        run = read_run(out)
        with scratch_folder() as scratch:
            commit = _commit(run.evidence.provenance, scratch)
        rows = rows_of(
            _new(run, report, commit, run.evidence, branch=environ.get("GITHUB_REF_NAME", ""), pins=read_anchors(suite))
        )
        return f"history: {_write_in_time(check_address(db, environ), rows)}"
    except FlashcoreError as error:
        return f"not stored in the history: {' '.join(str(error).split())}. {later}"
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever a database does, the verdict stands
        return f"not stored in the history: {type(error).__name__}. {later}"


def _load_database() -> None:
    with contextlib.suppress(ImportError):  # _write says what is absent
        from flashcore_ci.history import database, writing  # noqa: F401, PLC0415 - slow


def _write(url: Address, rows: RunRows) -> Added:
    from flashcore_ci.history import database, writing  # noqa: PLC0415 - as in _load_database

    return database.write(url, lambda connection: writing.add_run(connection, rows))


def _write_in_time(url: Address, rows: RunRows) -> Added:
    """Write in a thread, because no client can end its wait for a server that is silent."""
    from flashcore_ci.history.address import shown  # noqa: PLC0415 - as in _load_database

    done: list[Added | BaseException] = []

    def work() -> None:
        try:
            done.append(_write(url, rows))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            done.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    if not done:
        raise CannotCollectError(f"the database {shown(url)} gave no answer in {ANSWER_SECONDS} s")
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0]


def check_address(db: str, environ: Mapping[str, str]) -> Address:
    """Read an address. UsageError for one that can never work."""
    from flashcore_ci.history import address  # noqa: PLC0415 - as in _load_database

    return address.parse(db, environ)


def _read(path: Path, statement: Path | None, how: Import, scratch: Path) -> NewRun:
    """Read and judge a run. With a statement the file is copied first, so that all of this is about the same bytes."""
    if statement is not None:
        from flashcore_ci.run import statement as statements  # noqa: PLC0415 - slow, and rarely needed

        copy = scratch / "run.tar.xz"
        if path.is_dir():
            pack(path, copy)
        else:
            copy.write_bytes(files.read(path, limit=bundle.MAX_PACKED_BYTES))
        statements.demand(copy, statement)
        path = copy
    threading.Thread(target=_load_database).start()  # while the bundle is decompressed, and a process reads its reports
    started: list[profiler_reports.ProfilerReports] = []
    with contextlib.ExitStack() as stack:
        run = read_run(path, lambda files: started.append(stack.enter_context(profiler_reports.reading(files))))
        provenance, invocation, branch = run.evidence.provenance, "", how.branch
        standing = Standing.REVIEWED if how.reviewed else Standing.OTHER
        if statement is not None:
            invocation = in_toto.invocation_of(statements.read(statement))
            commit = _protected_commit(provenance, how.protected, invocation, scratch)
            standing, branch = Standing.PROTECTED, how.protected
        else:
            commit = _commit(provenance, scratch)
        report, source = _judged(run, how, started[0])
    packed = "" if path.is_dir() else hashlib.sha256(files.read(path, limit=bundle.MAX_PACKED_BYTES)).hexdigest()
    known = {"branch": branch, "bundle": packed, "standing": standing, "invocation": invocation}
    return _new(run, report, commit, source.evidence, **known, pins=read_anchors(how.suite))


def _new(run: Run, report: Report, commit: Commit, evidence: Evidence, **known: Any) -> NewRun:
    return NewRun(
        **known,
        plan=run.plan,
        evidence=evidence,
        verdicts=report.verdicts,
        outcome=report.outcome,
        headline=report.headline,
        commit=commit,
        added_at=int(clock.wall()),
        digest=hashlib.sha256(canonical(run.evidence)).hexdigest(),
    )


def _judged(run: Run, how: Import, profiles: profiler_reports.ProfilerReports) -> tuple[Report, Source]:
    """Judge by the run's own plan, as of its collection, with the waivers and references of the suite in this checkout."""
    waivers: tuple[Waiver, ...] = ()
    noise = References()
    request = Request(suite=how.suite, out=Path(), environ=how.environ)
    if (
        how.suite.is_file()
        and (suite := load(request.root / request.suite, root=request.root, runs=False)).name == run.plan.suite
    ):
        waivers, noise = suite.waivers, references.of(request.root / request.suite)
    source = rederived(recorded.source_of(run), run.plan, profiles)
    evidence, observed = run.evidence, resources.observe(run.plan.descriptions, run.evidence.builds, run.plan.protocol)
    static = Evidence(provenance=evidence.provenance, builds=evidence.builds, observations=observed)
    compiled = Source(origin=Origin(kind="recorded"), evidence=static)
    try:
        report = judge(
            run.plan,
            evidence.builds,
            (compiled, source),
            waivers=waivers,
            as_of=evidence.provenance.collected_at,
            stale=StalePolicy.BLOCK,
            tool=__version__,
            references=noise,
        )
    except (LookupError, ValueError, ArithmeticError) as error:
        raise EvidenceError(f"the run's own plan cannot be judged: {error}", fix="collect again: the plan was altered") from None
    return report, source


def _commit(provenance: Provenance, scratch: Path) -> Commit:
    """Describe the commit as far as this checkout knows it."""
    try:
        logged = git.log(Path.cwd(), git.parse_commit(provenance.commit), logs=scratch)[0]
    except (FlashcoreError, IndexError):
        return Commit(sha=provenance.commit)
    return Commit(sha=logged.sha, parent=logged.parent, committed_at=logged.at, subject=logged.subject)


def _protected_commit(provenance: Provenance, branch: str, invocation: str, scratch: Path) -> Commit:
    """Find the commit on the protected branch. UnmetError if the evidence does not count for it."""
    line = git.log(Path.cwd(), branch, logs=scratch, all_first_parents=True)
    index = next((number for number, logged in enumerate(line) if logged.sha == provenance.commit), None)
    problems = [
        *(() if index is not None else (f"commit {git.short(provenance.commit) or 'none'} is not on {branch}",)),
        *(("the evidence is of a checkout with uncommitted changes",) if provenance.dirty else ()),
        *(() if invocation else ("the statement names no workflow run",)),
        *(() if provenance.device else ("the evidence names no GPU",)),
    ]
    if problems or index is None:
        raise UnmetError("\n".join(problems), fix="add it without --statement: it is kept apart then")
    logged = line[index]
    return Commit(
        sha=logged.sha, parent=logged.parent, position=len(line) - index, committed_at=logged.at, subject=logged.subject
    )
