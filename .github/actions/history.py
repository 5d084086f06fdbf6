"""Find the newest artifact that holds the history, of a run of the protected branch of this repository. Standard library only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from github_api import RefusedError, pages


def main(environ: Mapping[str, str]) -> int:
    """Write the output ``run``, and return the exit status of the step."""
    try:
        name = environ["HISTORY_ARTIFACT"]
        url = f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/actions/artifacts?name={quote(name, safe='')}"
        found = newest(pages(url, environ["GH_TOKEN"], key="artifacts"), name, environ["HISTORY_BRANCH"])
        with Path(environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as output:
            output.write(f"run={found}\n")
    except (RefusedError, OSError, HTTPException, KeyError, ValueError, TypeError, AttributeError) as error:
        print(f"::error title=flashcore-ci::cannot find the history: {type(error).__name__}: {error}".replace("\n", " "))
        return 1
    print(f"the history is in run {found}" if found else "there is no history yet")
    return 0


def newest(artifacts: Iterable[Mapping[str, Any]], name: str, branch: str) -> str:
    """Return the run of the newest artifact, "" if there is none. Those of forks and other branches do not count."""
    counted = []
    for artifact in artifacts:
        run = artifact["workflow_run"]
        is_ours = run["head_repository_id"] == run["repository_id"] and run["head_branch"] == branch
        if artifact["name"] == name and is_ours and not artifact["expired"]:
            counted.append((str(artifact["created_at"]), int(run["id"])))
    return str(max(counted)[1]) if counted else ""


if __name__ == "__main__":
    sys.exit(main(os.environ))
