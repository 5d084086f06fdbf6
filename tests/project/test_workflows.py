"""The rules that keep a change from judging itself, in every workflow and action that ships."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import workflow_runner

GITHUB = workflow_runner.GITHUB
FILES = sorted(GITHUB.rglob("*.yml"))
WORKFLOWS = workflow_runner.workflows()
STEPS = list(workflow_runner.steps())
JOBS = [(f"{name}:{job}", content) for name, flow in WORKFLOWS.items() for job, content in flow["jobs"].items()]
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
SHELL_GRAMMAR = re.compile(r"[;&|<>`\n]|\$\(|\$\{")


def job(name: str) -> dict[str, Any]:
    return dict(JOBS)[name]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_is_permitted_unless_a_job_says_so(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {}
    assert all("permissions" in content for content in WORKFLOWS[name]["jobs"].values())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_event_gives_a_fork_our_rights(name: str) -> None:
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(WORKFLOWS[name]["on"])


@pytest.mark.parametrize(("name", "content"), JOBS)
def test_every_job_ends(name: str, content: dict[str, Any]) -> None:
    assert "uses" in content or 0 < content["timeout-minutes"] <= 60


@pytest.mark.parametrize(("name", "step"), [(name, step) for name, step in STEPS if "run" in step])
def test_a_run_line_is_one_command_and_holds_no_expression(name: str, step: dict[str, Any]) -> None:
    assert not SHELL_GRAMMAR.search(step["run"])
    assert "${{" not in step["run"]


@pytest.mark.parametrize(("name", "step"), [(name, step) for name, step in STEPS if "uses" in step])
def test_actions_are_ours_or_pinned(name: str, step: dict[str, Any]) -> None:
    assert step["uses"].startswith("./") or PINNED.fullmatch(step["uses"])


def test_one_action_has_one_pin_and_says_its_tag() -> None:
    pins = defaultdict(set)
    for path in FILES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses: " in line and "uses: ./" not in line:
                action, _, pin = line.split("uses: ")[1].partition("@")
                assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), line
                pins[action].add(pin)
    assert pins
    assert [action for action, found in pins.items() if len(found) > 1] == []


def test_a_checkout_keeps_no_token() -> None:
    checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_secret_is_named_anywhere() -> None:
    assert [path for path in FILES if "secrets." in path.read_text(encoding="utf-8")] == []


def test_where_kernels_run_nothing_may_be_written() -> None:
    on_gpus = [(name, content) for name, content in JOBS if "self-hosted" in content.get("runs-on", [])]
    nightly = {f"nightly.yml:{name}" for name in ("suites", "runner", "calibrate", "selftest")}
    assert {name for name, _ in on_gpus} == {"gate.yml:gpu", *nightly}
    for name, content in on_gpus:
        assert content["runs-on"] == ["self-hosted", "linux", "h100"], name
        assert content["permissions"] == {"contents": "read"}, name
        assert content["concurrency"] == {"group": "gpu-h100", "queue": "max"}, name
        assert content["environment"], name
        assert "token" not in str(content["steps"]), name


def test_jobs_that_may_write_run_no_code_of_the_change() -> None:
    writers = [(name, content) for name, content in JOBS if "write" in content["permissions"].values()]
    assert {name for name, _ in writers} == {"gate.yml:attest", "gate.yml:comment", "gate.yml:alerts"}
    for name, content in writers:
        checkouts = [step for step in content["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert all(step["with"]["ref"] == "${{ github.event.pull_request.base.sha }}" for step in checkouts), name
        assert [step for step in content["steps"] if "run" in step] == [], name
        assert checkouts or not any(step["uses"].startswith("./") for step in content["steps"]), name


def test_a_fork_waits_for_a_person() -> None:
    environment = job("gate.yml:gpu")["environment"]
    for fork, name in ((True, "gpu-fork"), (False, "gpu"), (None, "gpu")):
        context = {"github": {"event": {"pull_request": {"head": {"repo": {"fork": fork}}}}}}
        assert workflow_runner.evaluate(environment, context) == name
    assert workflow_runner.evaluate(environment, {"github": {"event": {}}}) == "gpu"  # the merge queue


def test_the_required_job_always_runs_and_needs_all_that_decide() -> None:
    required = job("gate.yml:required")
    assert required["if"] == "always()"
    assert required["needs"] == ["ci", "gpu", "attest"]
    assert set(WORKFLOWS["gate.yml"]["on"]) == {"pull_request", "merge_group"}
    assert WORKFLOWS["gate.yml"]["on"]["pull_request"] is None  # no paths, no branches: what is not run is not required


def test_the_signature_is_looked_at_before_any_code_of_the_change_runs() -> None:
    steps = job("gate.yml:required")["steps"]
    verified = next(i for i, step in enumerate(steps) if step.get("run", "").startswith("gh attestation verify "))
    ours = [i for i, step in enumerate(steps) if "run" in step or step["uses"].startswith("./")]
    assert min(ours) == verified


def test_the_local_run_executes_what_the_hosted_jobs_make() -> None:
    local = Path(GITHUB.parent / ".ci/run").read_text(encoding="utf-8").splitlines()
    commands = {step["run"] for _, step in STEPS if step.get("run", "").startswith("make ")}
    assert commands
    assert commands <= set(local)


def test_the_expressions_can_be_wrong() -> None:
    context = {"github": {"ref": "main"}, "ok": False}
    assert workflow_runner.condition(None, context) is False
    assert workflow_runner.condition("always()", context) is True
    assert workflow_runner.condition("${{ !cancelled() && github.ref == 'main' }}", context) is True
    assert workflow_runner.condition("github.ref == 'main'", context) is False
    with pytest.raises(AssertionError):
        workflow_runner.evaluate("${{ github.ref ~ 3 }}", context)
