"""Show how the bar differs from the base's, and write the acceptance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import git
from flashcore_ci.judge import summary
from flashcore_ci.judge.bar import judge_bar
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.verdict import Outcome, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.run.bar import compare_trees
from flashcore_ci.run.base.bar import ComparedBar, compare_bar
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.plan import load_suite
from flashcore_ci.run.project import by_suite_of_base
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.codec import encode
from flashcore_ci.suite.acceptances import write_acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBar:
    """The comparison in both forms, with the exit code and what to do."""

    as_json: bytes
    as_text: str
    exit_code: int
    fix: str


def compare_trees_as_json(base: Path, head: Path, request: Request) -> bytes:
    """Compare two folders, for the tool of another version."""
    with scratch_folder() as scratch:
        return encode(compare_trees(base, head, request.suite, python=request.settings.python, scratch=scratch))


def show(revision: str, request: Request, progress: Progress, *, accept: str | None, owner: str) -> ShownBar:
    """Compare with the fork point. ``accept`` writes the acceptance. UsageError if there is nothing to accept."""
    with scratch_folder() as scratch:
        commit = git.fork_point(request.root, revision, logs=scratch)
        request = by_suite_of_base(replace(request, base=commit), logs=scratch)
        load_suite(request)  # a mistake in it is not a key that the base's tool does not know
        compared = compare_bar(commit, request, progress, scratch=scratch)
    verdicts = judge_bar(compared.difference, compared.acceptances, origin=compared.origin)
    fix = verdicts[0].next_step if compared.difference.problem else "flashcore-ci bar --accept WHY"
    written = _accept(compared, request, accept, owner, fix) if accept is not None else None
    outcome = summary.overall(verdicts)
    lines = (f"{written}: commit it, and let its owners review it",) if written else tuple(_lines(compared, verdicts))
    code = 0 if written else summary.EXIT_CODE[outcome]
    return ShownBar(as_json=encode(compared.difference), as_text="\n".join(lines) + "\n", exit_code=code, fix=fix)


def _accept(compared: ComparedBar, request: Request, why: str, owner: str, fix: str) -> Path:
    difference = compared.difference
    if difference.problem:
        raise UsageError(f"nothing can be accepted: {difference.problem}", fix=fix)
    if not difference.changes:
        raise UsageError("the suite asks at least as much as the base's", fix="omit --accept: there is nothing to accept")
    return write_acceptance(request.root / request.suite, difference, why=why, owner=owner)


def _lines(compared: ComparedBar, verdicts: tuple[Verdict, ...]) -> Iterator[str]:
    for verdict in verdicts:
        outcome = "" if verdict.outcome is Outcome.PASS else f"{verdict.reason.code}  "
        yield f"{outcome}{formatting.printable(f'{verdict.target}: {verdict.reason.message}')}"
        yield from (f"  {formatting.printable(note)}" for note in verdict.notes)
    if compared.difference.problem:
        yield f"fix: {verdicts[0].next_step}"
    if compared.caveat:
        yield compared.caveat
