"""GitHub's workflow commands: ``::error file=,line=,title=::message``, shown at the lines of a pull request.

GitHub shows ten annotations of a kind for each step and drops the rest in silence, so what does not fit is counted in the
tenth. The escapes are those of its toolkit (https://github.com/actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting

MOST_OF_A_KIND = 10
MOST_MESSAGE = 1_000
VERDICT_CODES = frozenset({ExitCode.PASSED, ExitCode.GATE_FAILED, ExitCode.INCONCLUSIVE})
DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
PROPERTY = {**DATA, ":": "%3A", ",": "%2C"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One remark: ``level`` is ``error``, ``warning`` or ``notice``; file and line may be unknown ("" and 0)."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int = 0


def render(report: Report, dossier: Dossier) -> str:
    """The commands, a line each; nothing for a report that has nothing to remark."""
    return "".join(f"{_command(annotation)}\n" for annotation in _bounded(_remarks(report, dossier)))


def inert(text: str) -> str:
    """``text`` in which no line is a command, whatever a kernel's name or message says."""
    return "".join(_inert(line) for line in text.splitlines(keepends=True))


def _inert(line: str) -> str:
    """GitHub takes a line for a command when it begins with ``::``, blanks aside, or holds the older ``##[``."""
    body = line.lstrip()
    guarded = line.replace("::", ": :", 1) if body.startswith("::") else line
    return guarded.replace("##[", "# #[")


def _remarks(report: Report, dossier: Dossier) -> Iterator[Annotation]:
    """What is not a plain pass, most important first."""
    if report.exit_code not in VERDICT_CODES:
        yield Annotation(level="error", title="flashcore-ci", message=report.headline)
    reds = [verdict for verdict in report.verdicts if formatting.is_red(verdict)]
    for verdict in sorted(reds, key=lambda v: (not v.blocks, v.outcome is not Outcome.FAIL)):
        yield from _about(verdict, dossier)


def _about(verdict: Verdict, dossier: Dossier) -> Iterator[Annotation]:
    level = "error" if verdict.blocks else "notice" if verdict.deferred else "warning"
    title = f"{verdict.gate}: {formatting.label(verdict)}"
    numbers = f"{formatting.reading(verdict)}, limit {formatting.limit(verdict)}"
    for finding in verdict.findings:
        message = f"{verdict.target}: {finding.tool}: {formatting.told(finding)}"
        yield Annotation(level=level, title=title, message=message, file=finding.file, line=finding.line)
    if not verdict.findings:
        message = f"{verdict.target}: {numbers}\n{verdict.reason.message}\nnext: {verdict.next_step or 'see the report'}"
        yield Annotation(level=level, title=title, message=message, file=dossier.file_of(verdict.subject))


def _bounded(annotations: Iterable[Annotation]) -> Iterator[Annotation]:
    by_level: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        by_level.setdefault(annotation.level, []).append(annotation)
    for level, some in by_level.items():
        if len(some) <= MOST_OF_A_KIND:
            yield from some
        else:
            yield from some[: MOST_OF_A_KIND - 1]
            left = len(some) - MOST_OF_A_KIND + 1
            yield Annotation(level=level, title="flashcore-ci", message=f"{left} more like these; the step summary has all")


def _command(annotation: Annotation) -> str:
    pairs = {
        "file": annotation.file,
        "line": str(annotation.line) if annotation.file and annotation.line else "",
        "title": annotation.title,
    }
    given = ",".join(f"{name}={_escaped(formatting.printable(value), PROPERTY)}" for name, value in pairs.items() if value)
    message = formatting.shorten(formatting.clean_lines(annotation.message), MOST_MESSAGE)
    return f"::{annotation.level} {given}::{_escaped(message, DATA)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
