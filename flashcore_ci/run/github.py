"""GitHub Actions: annotations and the summary of the step."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.verdict import Report
from flashcore_ci.report import annotations as github_annotations
from flashcore_ci.report import markdown
from flashcore_ci.run import streams

ADDRESS = re.compile(r"https://[A-Za-z0-9.:-]{1,200}/[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}/actions/runs/[0-9]{1,20}")


def invocation(environ: Mapping[str, str]) -> str:
    """Return the address of this workflow run, or nothing elsewhere."""
    if not streams.is_github(environ):
        return ""
    server = environ.get("GITHUB_SERVER_URL", "https://github.com")
    address = f"{server}/{environ.get('GITHUB_REPOSITORY', '')}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}"
    if not ADDRESS.fullmatch(address):
        fix = "let GitHub set GITHUB_SERVER_URL, GITHUB_REPOSITORY and GITHUB_RUN_ID"
        raise UsageError(f"this is not the address of a workflow run: {address[:200]!r}", fix=fix)
    return address


def annotate(report: Report, dossier: Dossier, environ: Mapping[str, str]) -> None:
    """Annotate the log, and append to the step's summary."""
    if not streams.is_github(environ):
        return
    streams.write_trusted(github_annotations.render(report, dossier), err=True)
    if environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(environ["GITHUB_STEP_SUMMARY"]), report)


def _append(file: Path, report: Report) -> None:
    """Add the summary to a plain file if it fits: GitHub drops a file that is too large."""
    try:
        with files.append(file) as summary:
            text = markdown.render(report, limit=markdown.MOST_BYTES - summary.tell())
            summary.write(text.encode("utf-8", errors="replace"))
    except OSError as error:
        sys.stderr.write(f"flashcore-ci: cannot write the step summary: {error.strerror}\n")
