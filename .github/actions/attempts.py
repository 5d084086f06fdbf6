"""Count the runs and attempts of a commit through the API, show the count, and fail if it is too high. Standard library only.

What counts is the content: runs of another commit with the same files count too, so an empty commit does not start again.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from github_api import RefusedError, ask, pages

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
EVENTS = ("pull_request", "merge_group")
MOST_PAGES = 10
"""GitHub lists at most 1,000 runs of a query."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """Runs and attempts of one content."""

    runs: int
    attempts: int

    def line(self, most: int) -> str:
        """Return the count in one line."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return f"attempt {self.attempts} of this commit's files, in {runs} (at most {most})"


def main(environ: Mapping[str, str]) -> int:
    """Return the exit status of the step."""
    try:
        most = int(environ["ATTEMPTS_MOST"])
        count = tally(environ)
        _append(environ.get("GITHUB_OUTPUT"), f"attempts={count.attempts}\n")
        _append(environ.get("GITHUB_STEP_SUMMARY"), f"{count.line(most)}\n\n")
    except (RefusedError, OSError, HTTPException, KeyError, ValueError, TypeError, AttributeError) as error:
        print(f"::error title=flashcore-ci::cannot count the attempts: {type(error).__name__}: {error}".replace("\n", " "))
        return 1
    if count.attempts > most:
        print(f"::error title=flashcore-ci::{count.line(most)}: find out why it was not green, and push the fix")
        return 1
    print(count.line(most))
    return 0


def tally(environ: Mapping[str, str]) -> Count:
    """Ask for the runs of this commit, and for recent runs of the same event."""
    commit, event = environ["ATTEMPTS_COMMIT"], environ["ATTEMPTS_EVENT"]
    if not COMMIT.fullmatch(commit) or event not in EVENTS:
        raise RefusedError(f"{commit!r} is not a commit, or {event!r} is not one of {', '.join(EVENTS)}")
    repository, token = f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/actions", environ["GH_TOKEN"]
    this = ask("GET", f"{repository}/runs/{int(environ['GITHUB_RUN_ID'])}", token)
    listed = {
        run["id"]: run for run in pages(f"{repository}/runs?head_sha={commit}", token, key="workflow_runs", most=MOST_PAGES)
    }
    listed |= {run["id"]: run for run in _recent(f"{repository}/runs?event={event}", token)}
    if this["head_sha"] != commit:
        raise RefusedError(f"this run is of {this['head_sha']!r}, and not of {commit!r}")
    this["run_attempt"] = max(int(this["run_attempt"]), int(environ["GITHUB_RUN_ATTEMPT"]))
    return count((listed | {this["id"]: this}).values(), this, environ["ATTEMPTS_WORKFLOW"])


def count(runs: Iterable[Mapping[str, Any]], this: Mapping[str, Any], workflow: str) -> Count:
    """Count runs of this content that call the workflow, at whatever ref. This run always counts."""
    counted = [run for run in runs if run["id"] == this["id"] or (_is_same(run, this) and _calls(run, workflow))]
    return Count(runs=len(counted), attempts=sum(max(int(run["run_attempt"]), 1) for run in counted))


def _is_same(run: Mapping[str, Any], this: Mapping[str, Any]) -> bool:
    tree = (this.get("head_commit") or {}).get("tree_id")
    return run["head_sha"] == this["head_sha"] or (tree is not None and (run.get("head_commit") or {}).get("tree_id") == tree)


def _calls(run: Mapping[str, Any], workflow: str) -> bool:
    file = workflow.partition("@")[0].casefold()  # GitHub takes any case in `uses`
    called = [each["path"] for each in run.get("referenced_workflows") or ()] + [run.get("path") or ""]
    return any(path.partition("@")[0].casefold() == file for path in called)


def _recent(url: str, token: str) -> list[Any]:
    """Return the newest runs. There may be more than one page of them."""
    return list(ask("GET", f"{url}&per_page=100&page=1", token)["workflow_runs"])


def _append(file: str | None, text: str) -> None:
    if file:
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.write(text)


if __name__ == "__main__":
    sys.exit(main(os.environ))
