"""Render GitHub's workflow commands. The tenth of a level counts the dropped rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.suite import BAR
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting

MOST_PER_LEVEL = 10
MOST_MESSAGE = 1_000
DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
PROPERTY = {**DATA, ":": "%3A", ",": "%2C"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One annotation with ``level`` ``error``, ``warning`` or ``notice``."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int = 0


def render(report: Report, dossier: Dossier) -> str:
    """Return one command per line, most important first."""
    return "".join(f"{_command(annotation)}\n" for annotation in _bounded(_annotations(report, dossier)))


def _annotations(report: Report, dossier: Dossier) -> Iterator[Annotation]:
    if not formatting.is_judged(report):
        yield Annotation(level="error", title="flashcore-ci", message=formatting.plain(report.headline))
    reds = [verdict for verdict in report.verdicts if formatting.is_red(verdict)]
    for verdict in sorted(reds, key=lambda v: (v.gate != BAR, not v.blocks, v.outcome is not Outcome.FAIL)):
        yield from _about(verdict, dossier)


def _about(verdict: Verdict, dossier: Dossier) -> Iterator[Annotation]:
    level = "error" if verdict.blocks else "notice" if verdict.deferred else "warning"
    title = f"{verdict.gate}: {formatting.label(verdict)}"
    for finding in verdict.findings:
        message = f"{verdict.target}: {finding.tool}: {formatting.describe_finding(finding)}"
        yield Annotation(level=level, title=title, message=message, file=finding.file, line=finding.line)
    if not verdict.findings:
        steps = map(formatting.plain, (formatting.detail(verdict), f"next: {verdict.next_step or 'see the report'}"))
        message = "\n".join((f"{verdict.target}: {formatting.with_limit(verdict)}", *steps))
        yield Annotation(level=level, title=title, message=message, file=dossier.file_of(verdict.subject))


def _bounded(annotations: Iterable[Annotation]) -> Iterator[Annotation]:
    by_level: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        by_level.setdefault(annotation.level, []).append(annotation)
    for level, members in by_level.items():
        if len(members) <= MOST_PER_LEVEL:
            yield from members
        else:
            yield from members[: MOST_PER_LEVEL - 1]
            rest = len(members) - MOST_PER_LEVEL + 1
            yield Annotation(level=level, title="flashcore-ci", message=f"{rest} more like these are in the step summary")


def _command(annotation: Annotation) -> str:
    line = str(annotation.line) if annotation.file and annotation.line else ""
    pairs = {"file": annotation.file, "line": line, "title": annotation.title}
    properties = ",".join(f"{name}={_escaped(formatting.printable(value), PROPERTY)}" for name, value in pairs.items() if value)
    message = formatting.shorten(formatting.clean_lines(annotation.message), MOST_MESSAGE)
    return f"::{annotation.level} {properties}::{_escaped(message, DATA)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
