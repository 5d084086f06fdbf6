"""Write the files that people and CI read, on every path out of the tool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.errors import EvidenceError, ExitCode, FlashcoreError, InterruptedRunError
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.verdict import Outcome, Reason, Report, Verdict
from flashcore_ci.report import comment, junit, markdown, sarif
from flashcore_ci.report.html import page
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.files import write_atomically

REPORT = "report.json"
DOSSIER = "dossier.json"
FORMATS: dict[str, Callable[[Report, Dossier], str | bytes]] = {
    REPORT: lambda report, _: encode(report),
    "junit.xml": lambda report, _: junit.render(report),
    DOSSIER: lambda _, dossier: encode(dossier),
    "results.sarif": sarif.render,
    "summary.md": lambda report, _: markdown.render(report),
    "comment.md": comment.render,
    "report.html": page.render,
}
"""How to make each file. report.json comes first, so that CI has its answer even if a later one fails."""
FILES = tuple(FORMATS)
NOT_REACHED = frozenset({Code.NO_EVIDENCE, Code.NOT_BUILT})


def write(out: Path, report: Report, dossier: Dossier) -> None:
    """Write every file. CannotCollectError if the disk refuses."""
    for name in FORMATS:
        write_one(name, out, report, dossier)


def write_one(name: str, out: Path, report: Report, dossier: Dossier) -> None:
    """Write the file with this name. CannotCollectError if the disk refuses."""
    write_atomically(out / name, rendered(name, report, dossier))


def write_again(out: Path, report: Report, dossier: Dossier) -> None:
    """Write what follows from the two records in ``out``."""
    for name in FORMATS:
        if name not in {REPORT, DOSSIER}:
            write_one(name, out, report, dossier)


def rendered(name: str, report: Report, dossier: Dossier) -> bytes:
    """Return the content of the file with this name."""
    content = FORMATS[name](report, dossier)
    return content if isinstance(content, bytes) else content.encode("utf-8")


def read(path: Path) -> Report:
    """Read a ``report.json`` or the one in a folder. EvidenceError if there is none."""
    file = path / REPORT if path.is_dir() else path
    try:
        data = file.read_bytes()
    except OSError as error:
        raise EvidenceError(
            f"cannot read {file}: {error.strerror}", fix="give a folder that `flashcore-ci gate` or `flashcore-ci judge` wrote to"
        ) from None
    return decode(Report, data, where=str(file))


def read_dossier(path: Path) -> Dossier:
    """Read the dossier next to the report. EvidenceError if it was altered."""
    file = (path if path.is_dir() else path.parent) / DOSSIER
    return decode(Dossier, file.read_bytes(), where=str(file)) if file.is_file() else Dossier()


def clear(out: Path) -> None:
    """Remove an earlier run's reports, so that they cannot pass for this run's."""
    for name in FILES:
        with contextlib.suppress(OSError):
            (out / name).unlink()


def unplanned(error: BaseException, *, suite: str, as_of: str) -> Report:
    """Return the report of a run that ended without a plan: an error, no checks."""
    return Report(
        suite=suite,
        tool=__version__,
        as_of=as_of,
        outcome=Outcome.INCONCLUSIVE,
        exit_code=exit_code(error),
        headline=headline(error),
        verdicts=(),
        excluded=(),
        waivers=(),
        builds=(),
        provenance=None,
        notes=(*_more(error), "there was no plan, so nothing was judged"),
    )


def ended_by(error: BaseException, report: Report) -> Report:
    """Return ``report`` with ``error`` as its headline. It never passes."""
    code = exit_code(error)
    if isinstance(error, InterruptedRunError):
        verdicts = tuple(_interrupted(verdict) for verdict in report.verdicts)
        code = ExitCode.GATE_FAILED if report.exit_code == ExitCode.GATE_FAILED else code
    else:
        verdicts = report.verdicts
    return replace(
        report,
        outcome=Outcome.FAIL if report.outcome is Outcome.FAIL else Outcome.INCONCLUSIVE,
        exit_code=code,
        headline=headline(error),
        verdicts=verdicts,
        notes=(*report.notes, *_more(error)),
    )


def exit_code(error: BaseException) -> int:
    """Return the exit code for ``error``."""
    return error.exit_code if isinstance(error, FlashcoreError) else ExitCode.BUG


def headline(error: BaseException) -> str:
    """Return the error in one line."""
    lines = str(error).splitlines()
    first = lines[0] if lines else type(error).__name__
    return first if isinstance(error, FlashcoreError) else f"a bug in the tool: {type(error).__name__}: {first}"


def _more(error: BaseException) -> tuple[str, ...]:
    fix = getattr(error, "fix", "")
    return (*str(error).splitlines()[1:], *((f"fix: {fix}",) if fix else ()))


def _interrupted(verdict: Verdict) -> Verdict:
    """Say that the check was not reached, instead of that it was never recorded."""
    if verdict.outcome is not Outcome.INCONCLUSIVE or verdict.reason.code not in NOT_REACHED:
        return verdict
    message = "the run was stopped before this check"
    return replace(
        verdict,
        reason=Reason(code=Code.INTERRUPTED, message=message),
        reading=Missing(code=Code.INTERRUPTED, message=message),
        next_step=NEXT_STEP[Code.INTERRUPTED],
    )
