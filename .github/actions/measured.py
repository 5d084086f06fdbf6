"""Find the newest measurement of the base: the last run of the merge queue on its line of commits that uploaded evidence.

Without one, nothing is output, and the GPU job runs. Another step verifies the signature. Standard library and `git`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from github_api import RefusedError, ask

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
BRANCH = re.compile(r"[A-Za-z0-9._/-]{1,300}")
MOST_COMMITS = 200
SECONDS = 60
NAMES = ("evidence", "statement")


def main(environ: Mapping[str, str]) -> int:
    """Return the exit status of the step."""
    try:
        found = find(environ)
    except (
        RefusedError,
        OSError,
        HTTPException,
        subprocess.SubprocessError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        print(f"::warning title=flashcore-ci::no evidence of the base: {type(error).__name__}: {error}".replace("\n", " "))
        found = {}
    if environ.get("GITHUB_OUTPUT"):
        with Path(environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
            file.write("".join(f"{name}={value}\n" for name, value in found.items()))
    print(f"the base was measured in run {found['run']}" if found else "no run measured the base: the GPU job runs")
    return 0


def find(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the run, its commit, ref, attempt and signer, and the ids of its uploads. Empty without one."""
    base, api = environ["MEASURED_BASE"], f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/actions"
    if not COMMIT.fullmatch(base):
        raise RefusedError(f"{base!r} is not a commit")
    argv = ["git", "rev-list", "--first-parent", f"--max-count={MOST_COMMITS}", base, "--"]
    line = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SECONDS).stdout.split()
    order = {commit: number for number, commit in enumerate(line)}
    runs = ask("GET", f"{api}/runs?event=merge_group&per_page=100&page=1", environ["GH_TOKEN"])["workflow_runs"]
    usable = [run for run in runs if run["head_sha"] in order and run["conclusion"] == "success"]
    for run in sorted(usable, key=lambda run: order[run["head_sha"]]):
        signers = list(_signers(run, environ["MEASURED_WORKFLOW"]))
        listed = ask("GET", f"{api}/runs/{int(run['id'])}/artifacts?per_page=100", environ["GH_TOKEN"])["artifacts"]
        ids = {each["name"]: int(each["id"]) for each in listed if each["name"] in NAMES and each["expired"] is False}
        if len(ids) == len(NAMES) and len(signers) == 1 and BRANCH.fullmatch(run["head_branch"]):
            said = {"run": int(run["id"]), "attempt": int(run["run_attempt"]), "commit": run["head_sha"]}
            said |= {"ref": f"refs/heads/{run['head_branch']}", "signer-digest": signers[0], **ids}
            return {name: str(value) for name, value in said.items()}
    return {}


def _signers(run: Mapping[str, Any], workflow: str) -> Iterator[str]:
    """Yield the commit of the trusted workflow in that run."""
    file = workflow.partition("@")[0].casefold()
    for each in run.get("referenced_workflows") or ():
        if each["path"].partition("@")[0].casefold() == file and COMMIT.fullmatch(each.get("sha") or ""):
            yield each["sha"]


if __name__ == "__main__":
    sys.exit(main(os.environ))
