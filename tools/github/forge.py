"""Open eight forged pull requests in a scratch repository, and expect eight red ones. For maintainers.

    GH_TOKEN=… python3 tools/github/forge.py OWNER/flashcore-ci-scratch

The scratch repository is a copy of this one with the same rulesets, workflows and runners. Its ruleset asks for no review, since
eight pull requests that wait for a review prove nothing. A ninth, honest pull request must become green, for the same reason.
Each forgery breaks a kernel so that it does not compile, and claims a green in its own way. Branches are removed at the end.
docs/github.md says which set-up stops which forgery. Standard library only.
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".github/actions"))

from github_api import RefusedError, ask, pages

SUFFIX = "-scratch"
REQUIRED, ACTIONS_APP = "gate / required", 15368
KERNEL, CALLER, FORGED = "kernel/src/stream.cu", ".github/workflows/gate.yml", ".github/workflows/forged.yml"
REQUIRE, SUITE = "flashcore_ci/cli/require.py", "gates/hopper.toml"
GREEN, WAITING = frozenset({"clean", "unstable", "has_hooks"}), frozenset({"unknown", ""})
JOB = "on: [pull_request]\njobs:\n  forged:\n    name: gate / required\n    runs-on: {machine}\n{more}    steps:\n{steps}"
ECHO = "      - run: echo green\n"

Edit = Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """A pull request: what it claims, and how it edits files. An absent file is empty text."""

    name: str
    claim: str
    edits: Mapping[str, Edit]


def broken(text: str) -> str:
    """Break the kernel: an honest gate is red within a minute, without a GPU."""
    return f"#error this pull request is forged\n{text}"


def workflow(*, machine: str = "ubuntu-24.04", more: str = "", steps: str = ECHO) -> Edit:
    """Replace a workflow by a job that prints the name of the required check."""
    return lambda _: JOB.format(machine=machine, more=more, steps=steps)


def _posted() -> str:
    path = "repos/${{ github.repository }}/check-runs"
    fields = "-f name='gate / required' -f head_sha=${{ github.event.pull_request.head.sha }} -f conclusion=success"
    return f"      - run: gh api {path} {fields}\n        env:\n          GH_TOKEN: ${{{{ github.token }}}}\n"


def _attached(job: str) -> Edit:
    return lambda text: f"{text.rstrip()}\n  forged:\n    runs-on: ubuntu-24.04\n{job}"


UPLOAD = "    steps:\n      - run: touch gpu.tar.xz\n      - uses: actions/upload-artifact@v4\n        with: {name: evidence, path: gpu.tar.xz}\n"
SIGN = (
    "    permissions: {id-token: write, attestations: write}\n    steps:\n      - run: touch gpu.tar.xz\n"
    "      - uses: actions/attest-build-provenance@v3\n        with: {subject-path: gpu.tar.xz}\n"
)
WRITE = "    permissions:\n      checks: write\n"
FORGERIES = (
    Forgery(name="name", claim="another workflow prints the name of the check", edits={KERNEL: broken, FORGED: workflow()}),
    Forgery(
        name="grant",
        claim="a workflow gives itself the right to write checks",
        edits={KERNEL: broken, FORGED: workflow(more=WRITE, steps=_posted())},
    ),
    Forgery(
        name="skip",
        claim="the call of the gate is skipped",
        edits={KERNEL: broken, CALLER: lambda text: text.replace("    name: gate\n", "    name: gate\n    if: false\n")},
    ),
    Forgery(name="own-gate", claim="the gate calls nothing", edits={KERNEL: broken, CALLER: workflow()}),
    Forgery(
        name="artifact", claim="a job of the same run uploads the evidence", edits={KERNEL: broken, CALLER: _attached(UPLOAD)}
    ),
    Forgery(name="signature", claim="the branch's own workflow signs", edits={KERNEL: broken, CALLER: _attached(SIGN)}),
    Forgery(
        name="tool",
        claim="the tool of the branch always passes",
        edits={KERNEL: broken, REQUIRE: lambda text: text.replace("return next(", "return ExitCode.PASSED or next(")},
    ),
    Forgery(
        name="environment",
        claim="a job of its own chooses the GPU machine and its environment",
        edits={KERNEL: broken, CALLER: workflow(machine="[self-hosted, linux, h100]", more="    environment: gpu\n")},
    ),
)
HONEST = Forgery(name="honest", claim="a change of a page", edits={"docs/glossary.md": lambda text: f"{text.rstrip()}\n\n"})


@dataclass(kw_only=True)
class Scratch:
    """The scratch repository, as its API shows it."""

    url: str
    token: str
    prefix: str

    def call(self, method: str, path: str, content: dict[str, Any] | None = None) -> Any:
        """Ask the API of the repository."""
        return ask(method, f"{self.url}/{path}" if path else self.url, self.token, content)

    def refuse(self) -> None:
        """Raise RefusedError unless a green here would mean something. Nothing is written before."""
        if self.call("GET", "")["default_branch"] != "main":
            raise RefusedError("its default branch is not main")
        rules = {rule["type"]: rule.get("parameters", {}) for rule in self.call("GET", "rules/branches/main")}
        checks = rules.get("required_status_checks", {}).get("required_status_checks", [])
        if {"context": REQUIRED, "integration_id": ACTIONS_APP} not in checks:
            raise RefusedError(f"its ruleset does not require {REQUIRED!r} of GitHub Actions: import .github/rulesets/main.json")
        review = rules.get("pull_request", {})
        if review.get("required_approving_review_count") or review.get("require_code_owner_review"):
            raise RefusedError("its ruleset asks for a review, so every pull request is blocked: set the number to 0 there")
        if "workflows" not in rules:
            sys.stdout.write("note: no rule `workflows` is in force. Expect name, grant, own-gate and environment green.\n")

    def open(self, forgery: Forgery) -> int:
        """Open a pull request and return its number."""
        branch = f"{self.prefix}-{forgery.name}"
        self.call(
            "POST", "git/refs", {"ref": f"refs/heads/{branch}", "sha": self.call("GET", "git/ref/heads/main")["object"]["sha"]}
        )
        for path, edit in forgery.edits.items():
            before, sha = self._file(path)
            content = base64.b64encode(edit(before).encode()).decode()
            change = {"message": f"forge: {forgery.name}", "content": content, "branch": branch} | ({"sha": sha} if sha else {})
            self.call("PUT", f"contents/{path}", change)
        pull = {"title": f"forged: {forgery.name}", "head": branch, "base": "main", "body": forgery.claim}
        return int(self.call("POST", "pulls", pull)["number"])

    def _file(self, path: str) -> tuple[str, str]:
        try:
            found = self.call("GET", f"contents/{path}?ref=main")
        except urllib.error.HTTPError as error:
            if error.code != 404:  # noqa: PLR2004 - HTTP's own number
                raise
            return "", ""
        return base64.b64decode(found["content"]).decode(), found["sha"]

    def state(self, number: int) -> str:
        """Return what GitHub says of merging it, or nothing while checks run."""
        pull = self.call("GET", f"pulls/{number}")
        sha = pull["head"]["sha"]
        runs = list(pages(f"{self.url}/commits/{sha}/check-runs", self.token, key="check_runs"))
        if REQUIRED not in {run["name"] for run in runs} or any(run["status"] != "completed" for run in runs):
            return ""
        return str(pull["mergeable_state"] or "")

    def remove(self, forgery: Forgery, number: int | None) -> None:
        """Close the pull request and delete its branch, also if only one of them was made."""
        calls: list[tuple[str, str, dict[str, Any] | None]] = [("DELETE", f"git/refs/heads/{self.prefix}-{forgery.name}", None)]
        if number is not None:
            calls.insert(0, ("PATCH", f"pulls/{number}", {"state": "closed"}))
        for method, path, content in calls:
            try:
                self.call(method, path, content)
            except (OSError, HTTPException, ValueError) as error:
                sys.stderr.write(f"left behind: {path}: {error}\n")


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Return 0 if eight are red and the honest one is green."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("repository", help=f"OWNER/NAME{SUFFIX}")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds until a check that still runs counts as not green")
    parser.add_argument("--poll", type=float, default=30.0, help="seconds between two questions")
    options = parser.parse_args(arguments)
    try:
        scratch = scratch_of(options.repository, environ)
        scratch.refuse()
        return verdict(states(scratch, timeout=options.timeout, poll=options.poll))
    except (RefusedError, OSError, HTTPException, KeyError, ValueError) as error:
        sys.stderr.write(f"forge: {type(error).__name__}: {error}\n")
        return 2


def scratch_of(repository: str, environ: Mapping[str, str]) -> Scratch:
    """Return the repository. RefusedError if it is not a scratch repository, before anything is asked."""
    if not repository.endswith(SUFFIX):
        raise RefusedError(f"{repository} does not end in {SUFFIX}: forged pull requests are for a scratch repository")
    api = environ.get("GITHUB_API_URL", "https://api.github.com")
    return Scratch(url=f"{api}/repos/{repository}", token=environ["GH_TOKEN"], prefix=f"forged-{int(time.time())}")


def states(scratch: Scratch, *, timeout: float, poll: float) -> dict[str, str]:
    """Open all pull requests, wait for their checks, and remove them however it ends."""
    opened: dict[str, int | None] = {}
    found: dict[str, str] = {}
    everything = (HONEST, *FORGERIES)
    try:
        for forgery in everything:
            opened[forgery.name] = None
            opened[forgery.name] = scratch.open(forgery)
        end = time.monotonic() + timeout
        while True:
            found |= {name: state for name, state in _asked(scratch, opened, found)}  # noqa: C416 - a dict to merge
            if all(state not in WAITING for state in found.values()) or time.monotonic() > end:
                return found
            time.sleep(poll)
    finally:
        for forgery in everything:
            if forgery.name in opened:
                scratch.remove(forgery, opened[forgery.name])


def _asked(scratch: Scratch, opened: Mapping[str, int | None], found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, number in opened.items():
        if number is not None and found.get(name, "") in WAITING:
            yield name, scratch.state(number)


def verdict(found: Mapping[str, str]) -> int:
    """Print a table. 1 if a forgery can merge, or if the honest change cannot."""
    wrong = 0
    for forgery in (HONEST, *FORGERIES):
        state = found.get(forgery.name, "")
        is_green = state in GREEN
        is_wrong = is_green != (forgery is HONEST)
        wrong += is_wrong
        colour = "green" if is_green else "red"
        sys.stdout.write(
            f"{'WRONG' if is_wrong else 'ok   '}  {colour:5}  {forgery.name:12}  {state or 'not finished':12}  {forgery.claim}\n"
        )
    sys.stdout.write(
        "eight forged pull requests are red\n" if not wrong else f"{wrong} of {len(FORGERIES) + 1} are not as expected\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
