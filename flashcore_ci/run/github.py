"""Annotate the log of GitHub Actions and write the step summary."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.verdict import Report
from flashcore_ci.report import annotations, markdown


def is_github(environ: Mapping[str, str]) -> bool:
    """Tell whether this runs in a step of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def inert(text: str) -> str:
    """Return ``text`` without a line that GitHub reads as a command."""
    return annotations.inert(text)


def tell(report: Report, dossier: Dossier, environ: Mapping[str, str]) -> None:
    """Write annotations to standard error, and the summary to the step's file."""
    if not is_github(environ):
        return
    sys.stderr.write(annotations.render(report, dossier))
    if environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(environ["GITHUB_STEP_SUMMARY"]), report)


def _append(file: Path, report: Report) -> None:
    """Append within the remaining room: GitHub drops the whole file if it is too large."""
    try:
        used = file.stat().st_size if file.exists() else 0
        with file.open("a", encoding="utf-8", errors="replace") as summary:
            summary.write(markdown.render(report, limit=markdown.MOST_BYTES - used))
    except OSError as error:
        sys.stderr.write(f"flashcore-ci: cannot write the step summary: {error.strerror}\n")
