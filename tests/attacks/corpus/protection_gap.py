"""A ruleset, a group of runners or CODEOWNERS that leaves a way around the gate, and that the check must name."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from scripts import GITHUB, script

protection = script("check_protection")
SHIPPED = {name: json.loads((GITHUB / "rulesets" / name).read_text(encoding="utf-8")) for name in protection.CHECKS}
OWNERS = (GITHUB / "CODEOWNERS").read_text(encoding="utf-8")
FILES = (
    *(".github/workflows/trusted.yml", ".github/CODEOWNERS", ".github/rulesets/main.json", ".github/locks/required.lock"),
    *(".github/actions/verify.py", "flashcore_ci/judge/judge.py", "gates/hopper.toml", "gates/noise/h200.json.xz"),
    *("kernel/subjects/stream.py", "kernel/src/stream.cu", "tests/project/test_workflows.py", "Makefile", "pyproject.toml"),
)
Change = Callable[[Any], object]


def _settings(name: str, file: str, change: Change) -> Attack:
    def attempt(_: Path) -> bool:
        ruleset = copy.deepcopy(SHIPPED[file])
        change(ruleset)
        return list(protection.CHECKS[file](ruleset)) == []

    return Attack(name=f"{file}: {name}", attempt=attempt)


def _owners(name: str, change: Callable[[str], str]) -> Attack:
    def attempt(_: Path) -> bool:
        return list(protection.unowned(change(OWNERS), FILES)) == []

    return Attack(name=f"CODEOWNERS: {name}", attempt=attempt)


def _added(line: str) -> Callable[[str], str]:
    return lambda text: f"{text}{line}\n"


def _parameter(rule: str, name: str, value: Any) -> Change:
    return lambda ruleset: _rule(ruleset, rule)["parameters"].update({name: value})


def _rule(ruleset: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(rule for rule in ruleset["rules"] if rule["type"] == kind)


def _without(kind: str) -> Change:
    return lambda ruleset: ruleset["rules"].remove(_rule(ruleset, kind))


def _set(**values: Any) -> Change:
    return lambda ruleset: ruleset.update(values)


def _refs(**values: Any) -> Change:
    return lambda ruleset: ruleset["conditions"]["ref_name"].update(values)


def _weak_first(ruleset: dict[str, Any]) -> None:
    weak = copy.deepcopy(_rule(ruleset, "pull_request"))
    weak["parameters"]["required_approving_review_count"] = 0
    ruleset["rules"].insert(0, weak)


CHECKS, REVIEW = "required_status_checks", "pull_request"
CHECK = {"context": "gate / required", "integration_id": 15368}
EVIL = {"path": ".github/workflows/gate.yml", "ref": "refs/heads/next", "repository_id": 1}
FLOWS = SHIPPED["runner-group.json"]["selected_workflows"]
ATTACKS = (
    _settings("only tried out", "main.json", _set(enforcement="evaluate")),
    _settings("disabled", "main.json", _set(enforcement="disabled")),
    _settings("for tags", "main.json", _set(target="tag")),
    _settings("another branch", "main.json", _refs(include=["refs/heads/next"])),
    _settings("the branch is excluded", "main.json", _refs(exclude=["refs/heads/main"])),
    _settings("an admin passes", "main.json", _set(bypass_actors=[{"actor_id": 5, "actor_type": "RepositoryRole"}])),
    _settings("an app passes", "main.json", _set(bypass_actors=[{"actor_id": 15368, "actor_type": "Integration"}])),
    _settings("it says nothing of who passes", "main.json", lambda ruleset: ruleset.pop("bypass_actors")),
    _settings("deletion", "main.json", _without("deletion")),
    _settings("force pushes", "main.json", _without("non_fast_forward")),
    _settings("direct pushes", "main.json", _without(REVIEW)),
    _settings("no review", "main.json", _parameter(REVIEW, "required_approving_review_count", 0)),
    _settings("anyone's review", "main.json", _parameter(REVIEW, "require_code_owner_review", False)),
    _settings("a review of an older push", "main.json", _parameter(REVIEW, "dismiss_stale_reviews_on_push", False)),
    _settings("a review by who pushed last", "main.json", _parameter(REVIEW, "require_last_push_approval", False)),
    _settings("a second, weaker rule", "main.json", _weak_first),
    _settings("no check", "main.json", _without(CHECKS)),
    _settings("an empty list of checks", "main.json", _parameter(CHECKS, CHECKS, [])),
    _settings("the check of any app", "main.json", _parameter(CHECKS, CHECKS, [{"context": "gate / required"}])),
    _settings("the check of another app", "main.json", _parameter(CHECKS, CHECKS, [{**CHECK, "integration_id": 1}])),
    _settings("a check that anyone prints", "main.json", _parameter(CHECKS, CHECKS, [{**CHECK, "context": "required"}])),
    _settings(
        "a check that is always green", "main.json", _parameter(CHECKS, CHECKS, [{**CHECK, "context": "gate / ci / lint"}])
    ),
    _settings("behind its base", "main.json", _parameter(CHECKS, "strict_required_status_checks_policy", False)),
    _settings("a new branch is free", "main.json", _parameter(CHECKS, "do_not_enforce_on_create", True)),
    _settings("no queue", "main.json", _without("merge_queue")),
    _settings("a queue that merges red", "main.json", _parameter("merge_queue", "grouping_strategy", "HEADGREEN")),
    _settings("no workflow", "organization.json", _without("workflows")),
    _settings("the workflow of a branch", "organization.json", _parameter("workflows", "workflows", [EVIL])),
    _settings("an empty list of workflows", "organization.json", _parameter("workflows", "workflows", [])),
    _settings("a new branch is free", "organization.json", _parameter("workflows", "do_not_enforce_on_create", True)),
    _settings("no repository", "organization.json", lambda ruleset: ruleset["conditions"]["repository_name"].update(include=[])),
    _settings("only tried out", "organization.json", _set(enforcement="evaluate")),
    _settings("somebody passes", "organization.json", _set(bypass_actors=[{"actor_type": "OrganizationAdmin"}])),
    _settings(
        "only ci.yml", "pushes.json", _parameter("file_path_restriction", "restricted_file_paths", [".github/workflows/ci.yml"])
    ),
    _settings("everybody passes", "pushes.json", _set(bypass_actors=[{"actor_type": "RepositoryRole", "actor_id": 4}])),
    _settings("for branches", "pushes.json", _set(target="branch")),
    _settings("any workflow", "runner-group.json", _set(restricted_to_workflows=False)),
    _settings(
        "a workflow of any ref",
        "runner-group.json",
        _set(selected_workflows=[FLOWS[0].replace("refs/heads/main", "refs/heads/x")]),
    ),
    _settings(
        "the caller of the pull request", "runner-group.json", _set(selected_workflows=[FLOWS[0].replace("trusted", "gate")])
    ),
    _settings("no list of workflows", "runner-group.json", _set(selected_workflows=[])),
    _settings("every repository", "runner-group.json", _set(visibility="all")),
    _owners("nobody owns the gates", _added("/gates/")),
    _owners("nobody owns the suite", _added("*.toml")),
    _owners("another owner for the tool", _added("/flashcore_ci/ @somebody")),
    _owners("a second owner for workflows", _added("/.github/ @OWNER/maintainers @somebody")),
    _owners("another owner by extension", _added("*.yml @somebody")),
    _owners("another owner for one subject", _added("/kernel/subjects/stream.py @somebody")),
    _owners("another owner for the lock file", _added("/.github/locks/ @somebody")),
    _owners("another owner for itself", _added("CODEOWNERS @somebody")),
    _owners("a name that GitHub ignores", lambda text: text.replace("@OWNER/maintainers", "OWNER/maintainers")),
    _owners("a pattern that GitHub ignores", _added("!/gates/ @OWNER/maintainers")),
    _owners("everything is a comment", lambda text: text.replace("\n", "\n#")),
    _owners("empty", lambda _: ""),
    _owners("only the first line, for one folder", lambda _: "/docs/ @OWNER/maintainers\n"),
    _owners("another team for everything, last", _added("* @somebody")),
    _owners("everything but one level", lambda _: "/* @OWNER/maintainers\n"),
)
GLOBS = (
    "/gates/",
    "gates/",
    "*.toml",
    "/flashcore_ci/**",
    "**/judge/",
    "/.github/**/*.yml",
    "Makefile",
    "*.py",
    "/kernel/s*/",
    "*",
)


def _member(numbers: random.Random) -> Attack:
    if numbers.random() < 0.5:
        owner = numbers.choice(("", "@somebody", "@OWNER/other", "@OWNER/maintainers @somebody", "somebody", "x@example.org"))
        line = f"{numbers.choice(GLOBS)} {owner}".rstrip()
        return _owners(f"{line}, {numbers.random()}", _added(line))
    file = numbers.choice(("main.json", "organization.json"))
    kinds = [rule["type"] for rule in SHIPPED[file]["rules"]]
    kind, name = numbers.choice(kinds), numbers.choice(("enforcement", "target", "bypass_actors", "rule"))
    if name == "rule":
        return _settings(f"no {kind}, {numbers.random()}", file, _without(kind))
    value = numbers.choice((None, "", "evaluate", "disabled", "tag", 0, [{"actor_id": numbers.randrange(9)}], {}))
    return _settings(f"{name} = {value}", file, _set(**{name: value}))


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "unowned", lambda *_: iter(()))
    for name in SHIPPED:
        monkeypatch.setitem(protection.CHECKS, name, lambda _: iter(()))


CLASS = AttackClass(name="protection gap", attacks=ATTACKS, member=_member, mutant=_mutant)
