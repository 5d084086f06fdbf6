"""GitHub's runner, as far as our workflows go: expressions, environment files, shells, and what each event may do.

Actions of others are looked up in a table; a workflow that uses one that is not there, or an expression beyond these, is an
error: nothing is skipped for want of understanding.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
TOKEN = re.compile(r"\s*(?:(&&|\|\||==|!=|!|\(|\))|'([^']*)'|([\w.-]+))")
BASH = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail"]

Context = Mapping[str, Any]


def load(path: Path) -> dict[str, Any]:
    """A workflow or an action. YAML calls the key ``on`` true; here it is a word again."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in content.items()}


def workflows() -> dict[str, dict[str, Any]]:
    """Every workflow by its file's name."""
    return {path.name: load(path) for path in sorted((GITHUB / "workflows").glob("*.yml"))}


def actions() -> dict[str, dict[str, Any]]:
    """Every action of ours by its folder's name."""
    return {path.parent.name: load(path) for path in sorted((GITHUB / "actions").glob("*/action.yml"))}


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step of every workflow and action, with the place it stands in."""
    for name, workflow in workflows().items():
        for job, content in workflow["jobs"].items():
            yield from ((f"{name}:{job}", step) for step in content.get("steps", []))
    for name, action in actions().items():
        yield from ((name, step) for step in action["runs"]["steps"])


# --- Expressions ---------------------------------------------------------------------------------------------------------


class Expression:
    """One expression: ``||`` below ``&&`` below ``==`` below ``!``, dotted names, strings, and three functions."""

    def __init__(self, text: str, context: Context) -> None:
        self.tokens = [match.groups() for match in TOKEN.finditer(text)]
        assert "".join(m.group() for m in TOKEN.finditer(text)).strip() == text.strip(), f"not understood: {text}"
        self.context = context

    def value(self) -> Any:
        """What it comes to."""
        found = self._either()
        assert not self.tokens, self.tokens
        return found

    def _either(self) -> Any:
        found = self._both()
        while self._take("||"):
            other = self._both()
            found = found or other
        return found

    def _both(self) -> Any:
        found = self._same()
        while self._take("&&"):
            other = self._same()
            found = found and other
        return found

    def _same(self) -> Any:
        found = self._negated()
        if self._take("=="):
            return (found or "") == (self._negated() or "")
        if self._take("!="):
            return (found or "") != (self._negated() or "")
        return found

    def _negated(self) -> Any:
        if self._take("!"):
            return not self._negated()
        if self._take("("):
            found = self._either()
            assert self._take(")")
            return found
        _, text, name = self.tokens.pop(0)
        return text if name is None else self._named(name)

    def _named(self, name: str) -> Any:
        if self._take("("):
            return self._called(name)
        if name in {"true", "false"}:
            return name == "true"
        found: Any = self.context
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def _called(self, name: str) -> Any:
        if name == "toJSON":
            found = json.dumps(self._either())
        else:
            found = {"always": True, "cancelled": False, "success": self.context["ok"]}[name]
        assert self._take(")")
        return found

    def _take(self, symbol: str) -> bool:
        if self.tokens and self.tokens[0][0] == symbol:
            self.tokens.pop(0)
            return True
        return False


def evaluate(text: Any, context: Context) -> Any:
    """A value with its expressions filled in; a value that is one expression keeps its type."""
    if not isinstance(text, str):
        return text
    whole = EXPRESSION.fullmatch(text)
    if whole:
        return Expression(whole[1], context).value()
    return EXPRESSION.sub(lambda match: _text(Expression(match[1], context).value()), text)


def condition(given: Any, context: Context) -> bool:
    """An ``if:``. One that names no state of the job before it asks for success too."""
    text = str(given if given is not None else "success()")
    text = text[3:-2].strip() if text.startswith("${{") else text
    if not re.search(r"\b(always|cancelled|success|failure)\(", text):
        text = f"success() && ({text})"
    return bool(Expression(text, context).value())


def _text(value: Any) -> str:
    return {None: "", True: "true", False: "false"}.get(value, str(value)) if not isinstance(value, str) else value


# --- Jobs ----------------------------------------------------------------------------------------------------------------

Foreign = Callable[["Runner", dict[str, str]], bool | dict[str, str]]
"""An action of others. It returns whether it went well, or its outputs."""


@dataclass(slots=True)
class Runner:
    """Runs one job in ``workspace``. ``foreign`` are the actions of others, by name. ``protected`` is where `$/` leads."""

    workspace: Path
    protected: Path
    temp: Path
    context: dict[str, Any]
    environment: dict[str, str]
    foreign: dict[str, Foreign]
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    log: str = ""
    summary: str = ""
    ok: bool = True

    def run(self, job: Mapping[str, Any]) -> str:
        """The job's result."""
        for step in job["steps"]:
            context = {**self.context, "steps": {name: {"outputs": o} for name, o in self.outputs.items()}, "ok": self.ok}
            if not condition(step.get("if"), context):
                continue
            went_well = self._step(step, context)
            self.ok = self.ok and (went_well or bool(step.get("continue-on-error")))
        return "success" if self.ok else "failure"

    def _step(self, step: Mapping[str, Any], context: Context) -> bool:
        if "run" in step:
            return self._shell(step, context, {}, step.get("id"))
        name = step["uses"].partition("@")[0]
        given = {key: _text(evaluate(value, context)) for key, value in step.get("with", {}).items()}
        self.ran.append(name)
        if name.startswith(("./", "$/")):
            folder = (self.workspace if name.startswith("./") else self.protected) / name[2:]
            return self._own(folder, given, context, step.get("id"))
        found = self.foreign[name](self, given)
        if isinstance(found, dict):
            self.outputs[step.get("id", name)] = found
        return bool(found)

    def _own(self, folder: Path, given: dict[str, str], context: Context, step: str | None) -> bool:
        """A composite action of ours, from the workspace."""
        action = load(folder / "action.yml")
        unknown = set(given) - set(action["inputs"])
        assert not unknown, f"{folder.name} has no input {unknown}"
        missing = [name for name, spec in action["inputs"].items() if spec.get("required") and not given.get(name)]
        assert not missing, f"{folder.name} needs {missing}"
        inputs = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()} | given
        inner = {**context, "inputs": inputs}
        went_well = all(self._shell(s, inner, {"GITHUB_ACTION_PATH": str(folder)}, s.get("id")) for s in action["runs"]["steps"])
        known = {**inner, "steps": {name: {"outputs": o} for name, o in self.outputs.items()}}
        if step:
            given_out = {name: _text(evaluate(spec["value"], known)) for name, spec in action.get("outputs", {}).items()}
            self.outputs[step] = given_out
        return went_well

    def _shell(self, step: Mapping[str, Any], context: Context, more: dict[str, str], name: str | None) -> bool:
        files = {variable: self.temp / variable.lower() for variable in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")}
        for file in files.values():
            file.write_text("")
        variables = {key: _text(evaluate(value, context)) for key, value in step.get("env", {}).items()}
        script = self.temp / "script.sh"
        script.write_text(evaluate(step["run"], context), encoding="utf-8")
        environment = {**self.environment, **variables, **more, **{k: str(v) for k, v in files.items()}}
        done = subprocess.run(
            [*BASH, str(script)],
            cwd=self.workspace,
            env=environment,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
        )
        self.log += done.stdout
        self.ran.append(step["run"])
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        if name:
            self.outputs[name] = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        return done.returncode == 0


def outputs_of(job: Mapping[str, Any], runner: Runner) -> dict[str, str]:
    """The outputs of a job that ran."""
    context = {**runner.context, "steps": {name: {"outputs": o} for name, o in runner.outputs.items()}}
    return {name: _text(evaluate(value, context)) for name, value in job.get("outputs", {}).items()}


def environment(temp: Path, workspace: Path, commit: str) -> dict[str, str]:
    """The variables of a job on GitHub; no token is among them."""
    temp.mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "XDG_CACHE_HOME", "PIP_INDEX_URL") if name in os.environ}
    return {
        **kept,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_REPOSITORY": "flashcore/flashcore-ci",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_SHA": commit,
        "RUNNER_TEMP": str(temp),
        "RUNNER_OS": "Linux",
    }
