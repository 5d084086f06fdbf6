"""Check that CODEOWNERS and the exported rulesets protect every file that a green depends on. Standard library only.

The files in .github/rulesets are what GitHub's API exports. This check reads them, and not the settings that are in force:
tools/github/forge.py shows those.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CODEOWNERS, RULESETS = ".github/CODEOWNERS", ".github/rulesets"
OWNER = re.compile(r"@[\w.-]+(/[\w.-]+)?")
GLOB = re.compile(r"[\w./*?+-]+")
BRANCH = "refs/heads/main"
ACTIONS_APP = 15368
"""The id of GitHub Actions as an app. Other apps may print the same check name, and do not count."""
REQUIRED = "gate / required"
CALLER, TRUSTED, NIGHTLY = (f".github/workflows/{name}.yml" for name in ("gate", "trusted", "nightly"))
FREE = re.compile(r"docs/.*|[^/]*\.md|LICENSE")
"""What no green depends on."""

Ruleset = Mapping[str, Any]
PULL_REQUEST = {
    "dismiss_stale_reviews_on_push": True,
    "require_code_owner_review": True,
    "require_last_push_approval": True,
}


def main(root: Path = ROOT) -> int:
    """Print every problem. 1 when there is one."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    found = list(unowned((root / CODEOWNERS).read_text(encoding="utf-8"), listed))
    for name, check in CHECKS.items():
        content = (root / RULESETS / name).read_text(encoding="utf-8")
        found += [f"{RULESETS}/{name}: {line}" for line in check(json.loads(content, object_pairs_hook=_without_duplicates))]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


def unowned(text: str, files: Iterable[str]) -> Iterator[str]:
    """Yield what CODEOWNERS leaves to others than the owners of everything."""
    rules = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words and not (len(words) > 1 and GLOB.fullmatch(words[0]) and all(OWNER.fullmatch(owner) for owner in words[1:])):
            yield f"{CODEOWNERS}: {line!r} is not a pattern with owners as GitHub takes it"
        elif words:
            rules.append((_pattern(words[0]), words[1:]))
    team = next((owners for pattern, owners in rules if pattern.fullmatch("any/file")), [])
    if len(team) != 1:
        yield f"{CODEOWNERS}: one team must own everything first"
    for file in files:
        owners = next((owners for pattern, owners in reversed(rules) if pattern.fullmatch(file)), [])
        if owners != team and not FREE.fullmatch(file):
            yield f"{CODEOWNERS}: {file} belongs to {' '.join(owners) or 'nobody'}"


def _pattern(glob: str) -> re.Pattern[str]:
    """Translate a pattern of CODEOWNERS, which are those of .gitignore without `!` and `[ ]`."""
    is_rooted = "/" in glob.rstrip("/")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob.strip("/") if glob != "/" else "")
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(words.get(part, re.escape(part)) for part in parts)
    inside = "/.*" if glob.endswith("/") else "" if glob.endswith("/*") else "(?:/.*)?"
    return re.compile(("" if is_rooted else "(?:.*/)?") + body + inside)


def branch_problems(ruleset: Ruleset) -> Iterator[str]:
    """Yield what the ruleset of the protected branch lets pass."""
    yield from _in_force(ruleset, "branch")
    rules = _rules(ruleset)
    yield from (f"no rule {name}" for name in ("deletion", "non_fast_forward") if name not in rules)
    review = rules.get("pull_request", {})
    if not review.get("required_approving_review_count", 0) >= 1:
        yield "no review is required"
    yield from (f"{name} is {review.get(name)}" for name, value in PULL_REQUEST.items() if review.get(name) is not value)
    checks = rules.get("required_status_checks", {})
    if checks.get("required_status_checks") != [{"context": REQUIRED, "integration_id": ACTIONS_APP}]:
        yield f"the required check is not {REQUIRED!r} of GitHub Actions alone"
    if checks.get("strict_required_status_checks_policy") is not True or checks.get("do_not_enforce_on_create") is not False:
        yield "a pull request may be behind its base, or a new branch is free"
    if rules.get("merge_queue", {}).get("grouping_strategy") != "ALLGREEN":
        yield "no merge queue, or one that merges what is red"


def organization_problems(ruleset: Ruleset) -> Iterator[str]:
    """Yield what the organisation's ruleset lets pass: it must run the workflow of the protected branch."""
    yield from _in_force(ruleset, "branch")
    if not ruleset.get("conditions", {}).get("repository_name", {}).get("include"):
        yield "it names no repository"
    rule = _rules(ruleset).get("workflows", {})
    found = [(flow.get("path"), flow.get("ref")) for flow in rule.get("workflows", [])]
    if found != [(CALLER, BRANCH)] or rule.get("do_not_enforce_on_create") is not False:
        yield f"it does not require {CALLER} at {BRANCH}"


def push_problems(ruleset: Ruleset) -> Iterator[str]:
    """Yield what the ruleset of pushes lets pass: only maintainers may push a workflow, to any branch."""
    if ruleset.get("target") != "push" or ruleset.get("enforcement") != "active" or ruleset.get("conditions"):
        yield "it is not in force for every push"
    if _rules(ruleset).get("file_path_restriction", {}).get("restricted_file_paths") != [".github/**/*"]:
        yield "it does not cover .github"
    if [actor.get("actor_type") for actor in ruleset.get("bypass_actors", [])] != ["Team"]:
        yield "others than one team may pass"


def runner_problems(group: Ruleset) -> Iterator[str]:
    """Yield what the group of GPU runners lets pass: it takes jobs of the protected branch's workflows only."""
    allowed = {f"OWNER/flashcore-ci/{path}@{BRANCH}" for path in (TRUSTED, NIGHTLY)}
    named = {re.sub(r"^[\w.-]+/[\w.-]+/", "OWNER/flashcore-ci/", each) for each in group.get("selected_workflows", [])}
    if group.get("restricted_to_workflows") is not True or not named or not named <= allowed:
        yield "jobs of other workflows may run on the GPU"
    if group.get("visibility") != "selected":
        yield "other repositories may use it"


CHECKS = {
    "main.json": branch_problems,
    "organization.json": organization_problems,
    "pushes.json": push_problems,
    "runner-group.json": runner_problems,
}


def _rules(ruleset: Ruleset) -> dict[str, Any]:
    """Return the parameters of each rule. A type that is there twice has none, so that its check fails."""
    types = [rule["type"] for rule in ruleset.get("rules", [])]
    return {
        rule["type"]: rule.get("parameters", {}) if types.count(rule["type"]) == 1 else {} for rule in ruleset.get("rules", [])
    }


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError(f"{RULESETS}: a key is given twice")
    return dict(pairs)


def _in_force(ruleset: Ruleset, target: str) -> Iterator[str]:
    if ruleset.get("enforcement") != "active" or ruleset.get("target") != target:
        yield "it is not in force"
    if ruleset.get("bypass_actors") != []:
        yield "somebody may bypass it"
    refs = ruleset.get("conditions", {}).get("ref_name", {})
    if BRANCH not in refs.get("include", []) or refs.get("exclude") != []:
        yield f"it does not cover {BRANCH}"


if __name__ == "__main__":
    sys.exit(main())
