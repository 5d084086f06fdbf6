"""The report files, one row of ``FORMATS`` each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import weigh
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.errors import EvidenceError, ExitCode, FlashcoreError, InterruptedRunError
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.verdict import Outcome, Reason, Report, Verdict
from flashcore_ci.report import annotations as github_annotations
from flashcore_ci.report import comment, junit, markdown, sarif
from flashcore_ci.report.html import page
from flashcore_ci.store.claim import refuse_foreign
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.files import write_atomically

REPORT = "report.json"
DOSSIER = "dossier.json"
PAGE = "report.html"
FORMATS: dict[str, Callable[[Report, Dossier], str | bytes]] = {
    REPORT: lambda report, _: encode(report),
    "junit.xml": lambda report, _: junit.render(report),
    DOSSIER: lambda _, dossier: encode(dossier),
    "results.sarif": sarif.render,
    "summary.md": lambda report, _: markdown.render(report),
    "comment.md": comment.render,
    PAGE: page.render,
}
"""Each file and the function that makes it. The verdict's own file comes first, in case a later one fails."""
FILES = tuple(FORMATS)
PRINTABLE: dict[str, Callable[[Report, Dossier], str | bytes]] = {
    "annotations": github_annotations.render,
    "json": FORMATS[REPORT],
    "junit": FORMATS["junit.xml"],
    "markdown": FORMATS["summary.md"],
    "comment": FORMATS["comment.md"],
    "sarif": FORMATS["results.sarif"],
    "html": FORMATS[PAGE],
}
"""What ``report --format`` can print."""
as_json = encode
MAX_WEIGHT = 16 << 20
"""Characters of a report and its dossier. The largest suite has 2 MiB."""
NOT_REACHED = frozenset({Code.NO_EVIDENCE, Code.NOT_BUILT})


def write(out: Path, report: Report, dossier: Dossier, names: Iterable[str] = FILES) -> None:
    """Write these files. CannotCollectError if the disk refuses, EvidenceError if they would be huge."""
    _refuse_huge(report, dossier)
    for name in names:
        write_atomically(out / name, _bytes(FORMATS[name](report, dossier)))


def rewrite(path: Path) -> Report:
    """Write again what follows from the two records. UsageError when the folder holds other files."""
    report, dossier = read(path), read_dossier(path)
    write(_own_folder(path), report, dossier, [name for name in FILES if name not in {REPORT, DOSSIER}])
    return report


def write_page(path: Path) -> Path:
    """Write the page again, as ``rewrite``. Return its path."""
    report, dossier = read(path), read_dossier(path)
    folder = _own_folder(path)
    write(folder, report, dossier, (PAGE,))
    return folder / PAGE


def printable(path: Path, form: str) -> bytes:
    """Render the report in one format of ``PRINTABLE``."""
    return _bytes(PRINTABLE[form](read(path), read_dossier(path)))


def terminal_text(report: Report, *, width: int, color: bool) -> str:
    """Render the report for a terminal."""
    from flashcore_ci.report import terminal  # noqa: PLC0415 - rich is heavy

    return terminal.render(report, width=width, color=color)


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8")


def _refuse_huge(*records: object) -> None:
    """EvidenceError if the texts are too large. Every format repeats and escapes them."""
    if not weigh(records, MAX_WEIGHT) < MAX_WEIGHT:
        raise EvidenceError(
            f"the reports would hold more than {MAX_WEIGHT >> 20} MiB of text", fix="collect again: the evidence was altered"
        )


def _own_folder(path: Path) -> Path:
    folder = path if path.is_dir() else path.parent
    refuse_foreign(folder, fix="add --format terminal, which writes nothing")
    return folder


def read(path: Path) -> Report:
    """Read a ``report.json``, or that of a folder. EvidenceError without one."""
    file = path / REPORT if path.is_dir() else path
    try:
        data = files.read(file, limit=files.MAX_RECORD)
    except OSError as error:
        fix = "give a folder that `flashcore-ci gate` or `flashcore-ci judge` wrote to"
        raise EvidenceError(f"cannot read {file}: {error.strerror}", fix=fix) from None
    report = decode(Report, data, where=str(file))
    _refuse_huge(report)
    return report


def read_dossier(path: Path) -> Dossier:
    """Read the dossier next to the report, empty if absent."""
    file = (path if path.is_dir() else path.parent) / DOSSIER
    try:
        data = files.read(file, limit=files.MAX_RECORD)
    except FileNotFoundError:
        return Dossier()
    except OSError as error:
        raise EvidenceError(f"cannot read {file}: {error.strerror}", fix=f"remove {file}") from None
    return decode(Dossier, data, where=str(file))


def clear(out: Path) -> None:
    """Remove an earlier run's reports."""
    for name in FILES:
        with contextlib.suppress(OSError):
            (out / name).unlink()


def unplanned(error: BaseException, *, suite: str, as_of: str) -> Report:
    """Report a run that ended before it had a plan."""
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
        notes=(*_details(error), "there was no plan, so nothing was judged"),
    )


def ended_by(error: BaseException, report: Report) -> Report:
    """Make the error the report's headline. Such a run never passes."""
    stopped = isinstance(error, InterruptedRunError)
    verdicts = tuple(map(_interrupted, report.verdicts)) if stopped else report.verdicts
    code = ExitCode.GATE_FAILED if stopped and report.exit_code == ExitCode.GATE_FAILED else exit_code(error)
    return replace(
        report,
        outcome=Outcome.FAIL if report.outcome is Outcome.FAIL else Outcome.INCONCLUSIVE,
        exit_code=code,
        headline=headline(error),
        verdicts=verdicts,
        notes=(*report.notes, *_details(error)),
    )


def exit_code(error: BaseException) -> int:
    """Return the exit code of ``error``."""
    return error.exit_code if isinstance(error, FlashcoreError) else ExitCode.BUG


def headline(error: BaseException) -> str:
    """Say the error in one line."""
    lines = str(error).splitlines()
    first = lines[0] if lines else type(error).__name__
    return first if isinstance(error, FlashcoreError) else f"a bug in the tool: {type(error).__name__}: {first}"


def _details(error: BaseException) -> tuple[str, ...]:
    fix = getattr(error, "fix", "")
    return (*str(error).splitlines()[1:], *((f"fix: {fix}",) if fix else ()))


def _interrupted(verdict: Verdict) -> Verdict:
    """Say that a check was not reached, not that evidence is missing."""
    if verdict.outcome is not Outcome.INCONCLUSIVE or verdict.reason.code not in NOT_REACHED:
        return verdict
    message = "the run was stopped before this check"
    return replace(
        verdict,
        reason=Reason(code=Code.INTERRUPTED, message=message),
        reading=Missing(code=Code.INTERRUPTED, message=message),
        next_step=NEXT_STEP[Code.INTERRUPTED],
    )
