"""GitHub Actions: annotations and the summary of the step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.verdict import Report
from flashcore_ci.report import annotations as github_annotations
from flashcore_ci.report import markdown
from flashcore_ci.run import streams


def invocation(environ: Mapping[str, str]) -> str:
    """Return the address of this workflow run, or nothing elsewhere."""
    if not streams.is_github(environ):
        return ""
    server = environ.get("GITHUB_SERVER_URL", "https://github.com")
    return f"{server}/{environ.get('GITHUB_REPOSITORY', '')}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}"


def annotate(report: Report, dossier: Dossier, environ: Mapping[str, str]) -> None:
    """Annotate the log, and append to the step's summary."""
    if not streams.is_github(environ):
        return
    streams.write_trusted(github_annotations.render(report, dossier), err=True)
    if environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(environ["GITHUB_STEP_SUMMARY"]), report)


def _append(file: Path, report: Report) -> None:
    """Add the summary if it fits: GitHub drops a file that is too large."""
    try:
        used = file.stat().st_size if file.exists() else 0
        with file.open("a", encoding="utf-8", errors="replace") as summary:
            summary.write(markdown.render(report, limit=markdown.MOST_BYTES - used))
    except OSError as error:
        sys.stderr.write(f"flashcore-ci: cannot write the step summary: {error.strerror}\n")
