"""What our workflows may say: an allow-list, so that a new key, right, event or step is a problem until it is listed here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import workflow_runner
from workflow_spec import (
    CALL,
    EVENTS,
    FLOW_KEYS,
    FORK,
    FREE,
    GPU,
    HOSTED,
    IDS,
    JOB_KEYS,
    NEEDS,
    OUTPUTS,
    OWN,
    PINNED,
    RIGHTS,
    SHELL_GRAMMAR,
    STEP_KEYS,
    STEPS,
    TRUSTED,
)

Flow = dict[str, Any]


def problems(flows: Mapping[str, Flow]) -> list[str]:
    """Return everything that the workflows may not say."""
    found = [f"{name}: not a workflow of ours" for name in set(flows) ^ set(EVENTS)]
    try:
        for name, flow in flows.items():
            found += [f"{name}: {problem}" for problem in _flow(name, flow)]
        found += [f"{TRUSTED}: {problem}" for problem in _trusted(flows[TRUSTED])]
        found += [f"gate.yml: {problem}" for problem in _caller(flows["gate.yml"])]
    except (AttributeError, KeyError, TypeError) as error:
        found.append(f"not a workflow: {error!r}")
    return found


def _flow(name: str, flow: Flow) -> Iterator[str]:
    yield from (f"key {key}" for key in set(flow) - FLOW_KEYS)
    if flow.get("permissions") != {}:
        yield "permissions are not empty"
    if flow.get("on") != EVENTS.get(name):
        yield f"events {flow.get('on')}"
    for job, content in flow["jobs"].items():
        yield from (f"{job}: {problem}" for problem in _job(name, job, content))


def _job(name: str, job: str, content: Flow) -> Iterator[str]:
    yield from (f"key {key}" for key in set(content) - JOB_KEYS)
    if content.get("permissions") != RIGHTS.get((name, job), {"contents": "read"}):
        yield f"permissions {content.get('permissions')}"
    if "uses" in content:
        if content["uses"] not in {CALL, "./.github/workflows/ci.yml"}:
            yield f"calls {content['uses']}"
        yield from (f"key {key} of a call" for key in set(content) - {"name", "uses", "permissions"})
        return
    if not (isinstance(content.get("timeout-minutes"), int) and 0 < content["timeout-minutes"] <= 60):
        yield "no time limit"
    if content.get("runs-on") == GPU:
        yield from _gpu_job(content)
    elif content.get("runs-on") != HOSTED:
        yield f"runs on {content.get('runs-on')}"
    for step in content["steps"]:
        yield from _step(step)


def _gpu_job(content: Flow) -> Iterator[str]:
    if content.get("concurrency") != {"group": "gpu-h100", "queue": "max"} or not content.get("environment"):
        yield "no queue or no environment"
    if "token" in str(content["steps"]):
        yield "a token where kernels run"


def _step(step: Flow) -> Iterator[str]:
    yield from (f"step key {key}" for key in set(step) - STEP_KEYS)
    if ("run" in step) == ("uses" in step):
        yield "a step runs and uses, or neither"
    if "run" in step and (SHELL_GRAMMAR.search(step["run"]) or "${{" in step["run"]):
        yield f"run line {step['run']!r}"
    uses = step.get("uses", "./")
    if not uses.startswith(("./", "$/")) and not PINNED.fullmatch(uses):
        yield f"{uses} is not pinned"
    if uses.startswith("actions/checkout@") and step.get("with", {}).get("persist-credentials") is not False:
        yield "a checkout keeps its token"
    if uses.startswith("actions/cache") or "cache" in step.get("with", {}):
        yield "a cache"
    if "secrets." in str(step) or "secrets[" in str(step):
        yield "a secret"


def _caller(flow: Flow) -> Iterator[str]:
    if set(flow["jobs"]) != {"gate"} or flow["jobs"]["gate"].get("uses") != CALL or flow["jobs"]["gate"].get("name") != "gate":
        yield "it must only call the trusted workflow"


def _trusted(flow: Flow) -> Iterator[str]:
    jobs = flow["jobs"]
    if set(jobs) != set(NEEDS):
        yield f"jobs {sorted(set(jobs) ^ set(NEEDS))}"
    if jobs.get("ci", {}).get("uses") != "./.github/workflows/ci.yml":
        yield "ci: not ours"
    for name, content in jobs.items():
        if content.get("needs") != NEEDS.get(name):
            yield f"{name}: needs {content.get('needs')}"
        if content.get("outputs", {}) != OUTPUTS.get(name, {}):
            yield f"{name}: outputs {content.get('outputs')}"
        if (content.get("runs-on") == GPU) != (name == "gpu") or "strategy" in content:
            yield f"{name}: another machine"
        if "steps" in content:
            yield from (f"{name}: {problem}" for problem in _steps(name, content["steps"]))
            yield from (f"{name}: {problem}" for problem in _conditions(name, content))


def _steps(job: str, steps: list[Flow]) -> Iterator[str]:
    expected = STEPS.get(job, [])
    if len(steps) != len(expected):
        yield f"{len(steps)} steps"
    for number, (step, (action, inputs)) in enumerate(zip(steps, expected, strict=False)):
        given = step.get("with", {})
        if step.get("uses", "").partition("@")[0] != action or "env" in step:
            yield f"step {number} is {step.get('uses')}"
        if any(given.get(name) != value for name, value in inputs.items()):
            yield f"step {number} has {given}"
        free = FREE | ({"path"} if inputs.get("name") == "reports" else set())
        yield from (f"step {number} has the input {name}" for name in set(given) - set(inputs) - free)
        if step.get("id") != IDS.get((job, number)):
            yield f"step {number} has the id {step.get('id')}"


def contexts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every kind of run, by name, in which the trusted workflow can be called."""
    for base in ("main", "easy"):
        for name, repository in (("branch", OWN), ("fork", FORK), ("deleted", None)):
            head = {"repo": None if repository is None else {"full_name": repository, "fork": repository == FORK}}
            pull = {"number": 7, "head": head, "base": {"ref": base}}
            yield f"{name} {base}", {"event_name": "pull_request", "event": {"pull_request": pull}, "repository": OWN}
        group = {"base_ref": f"refs/heads/{base}"}
        yield f"queue {base}", {"event_name": "merge_group", "event": {"merge_group": group}, "repository": OWN}
    for event in ("push", "workflow_dispatch", "schedule", "pull_request_target"):
        yield event, {"event_name": event, "event": {}, "repository": OWN}


def _conditions(job: str, content: Flow) -> Iterator[str]:
    conditions = tuple(None if step.get("if") is None else str(step["if"]) for step in content["steps"])
    given = content.get("if")
    yield from _evaluated(job, None if given is None else str(given), conditions, str(content.get("environment")))


@cache
def _evaluated(job: str, given: str | None, steps: tuple[str | None, ...], environment: str) -> tuple[str, ...]:
    """Evaluate each condition in every kind of run, after jobs and steps that succeeded, failed or were skipped."""
    found: list[str] = []
    states = list(itertools.product(("success", "failure", "skipped"), ("100", ""), (True, False), DECISIONS))
    for (kind, github), (attested, evidence, ok, decided) in itertools.product(contexts(), states):
        context = _context(github, attested, evidence, decided, ok=ok)
        wanted = _wanted(job, kind, attested, evidence, decided)
        try:
            if workflow_runner.condition(given, context) != (wanted["job"] and (ok or job not in {"gpu", "decide"})):
                found.append(f"its condition in {kind} after {attested}")
            for number, condition in enumerate(steps):
                survives = ok or (job == "gpu" and number in {2, 3})
                if workflow_runner.condition(condition, context) != (wanted.get(number, True) and survives):
                    found.append(f"the condition of step {number} in {kind} after {attested}")
            trusted = kind.split()[0] in {"branch", "queue"}
            if job == "gpu" and workflow_runner.evaluate(environment, context) != ("gpu" if trusted else "gpu-fork"):
                found.append(f"its environment in {kind}")
        except (AssertionError, KeyError, IndexError, AttributeError, ValueError) as error:
            found.append(f"a condition that is not understood: {error}")
        if found:
            break
    return tuple(found)


DECISIONS = (("", ""), ("true", ""), ("true", "w1 w2"), ("false", ""))
"""What `decide` says: whether a GPU job is needed, and for which workloads."""


def _context(github: dict[str, Any], attested: str, evidence: str, decided: tuple[str, str], *, ok: bool) -> dict[str, Any]:
    gpu = {"result": "success", "outputs": {"evidence": evidence}}
    attest = {"result": attested, "outputs": {"statement": "101" if attested == "success" else ""}}
    steps = {"gate": {"outputs": {"evidence": "gpu.tar.xz" if evidence else ""}}, "measured": {"outputs": {"evidence": evidence}}}
    decide = {"result": "success", "outputs": {"needed": decided[0], "only": decided[1]}}
    ci = {"result": "success" if ok else "failure"}
    return {"github": github, "needs": {"ci": ci, "decide": decide, "gpu": gpu, "attest": attest}, "steps": steps, "ok": ok}


def _wanted(job: str, kind: str, attested: str, evidence: str, decided: tuple[str, str]) -> dict[Any, bool]:
    """Say when a job and its steps must run."""
    is_own, is_pull = kind.split(maxsplit=1)[0] in {"branch", "queue"}, kind.split(maxsplit=1)[0] == "branch"
    signed, skips = attested == "success", decided[0] == "false"
    from_base = dict.fromkeys((5, 6, 7), skips or decided[1] != "")
    return {
        "decide": {"job": kind.endswith(" main"), **dict.fromkeys((2, 3, 4, 6), evidence != "")},
        "gpu": {"job": kind.endswith(" main") and not skips, 2: evidence != ""},
        "attest": {"job": evidence != "", 3: is_own},
        "required": {"job": True, 2: evidence != "", 3: signed, 4: signed and is_own, **from_base, 9: not skips, 10: skips},
        "comment": {"job": signed and is_pull and decided[1] == ""},
        "alerts": {"job": signed and is_own},
    }.get(job, {"job": True})


def action_problems(actions: Mapping[str, Flow]) -> list[str]:
    """Return what our composite actions may not say: each is one program, and inputs reach it as variables."""
    found = [f"{name}: not an action of ours" for name in set(actions) ^ set(PROGRAMS)]
    for name in set(actions) & set(PROGRAMS):
        action, (program, prefix) = actions[name], PROGRAMS[name]
        inputs = {f"{prefix}_{key.upper().replace('-', '_')}": f"${{{{ inputs.{key} }}}}" for key in action["inputs"]}
        token = inputs.pop(f"{prefix}_TOKEN", None)
        step = {"shell": "bash", "env": inputs | ({"GH_TOKEN": token} if token else {}), "run": program}
        given = [{key: value for key, value in step.items() if key != "id"} for step in action["runs"]["steps"]]
        if given != [step] or action["runs"].get("using") != "composite":
            found.append(f"{name}: its step is not {step}")
    demanded = actions.get("require", {}).get("inputs", {}).get("demand", {}).get("default")
    if demanded not in {None, " ".join(NEEDS["required"])}:
        found.append(f"require: demands {demanded}")
    defaults = [actions.get("verify", {}), actions.get("attempts", {})]
    given = [
        action.get("inputs", {}).get(key, {}).get("default") for action, key in zip(defaults, ("protected", "most"), strict=True)
    ]
    return found + ([f"defaults {given}"] if given != ["refs/heads/main", "5"] else [])


_PROGRAM = 'python3 "$GITHUB_ACTION_PATH/../{}"'
PROGRAMS = {
    name: (_PROGRAM.format(f"{name}.py"), name.upper()) for name in ("attempts", "comment", "history", "measured", "verify")
} | {
    name: (_PROGRAM.format("run.py") + f" {name}", "INPUT")
    for name in ("answered", "gate", "judge", "needs-gpu", "require", "statement")
}
"""What each action runs, and how the variables of its inputs begin."""
