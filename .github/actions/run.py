"""Install and run flashcore-ci in the steps of actions and nightly jobs.

Standard library only. Inputs come from the environment and become an argument list, never a shell command. The tool
writes annotations and the step summary itself.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The sources of flashcore-ci: the runner fetches an action with its whole repository."""

LOCKS = CHECKOUT / ".github/locks"
"""What pip installs, by version and hash. ``.github/checks/check_locks.py`` compares them with pyproject.toml."""

OLDEST = (3, 11)
PASSED, USAGE, GATE_FAILED, INCONCLUSIVE = 0, 2, 10, 11
TOLERATED = {
    "inconclusive": {PASSED},
    "failure": {PASSED, INCONCLUSIVE},
    "never": {PASSED, INCONCLUSIVE, GATE_FAILED},
}
CHOICES = {
    "measure": ("live", "recorded"),
    "stale": ("block", "defer"),
    "toolchain": ("pip", "13.0", "13.5", "system"),
    "fail-on": tuple(TOLERATED),
}
MAY_BE_EMPTY = frozenset({"base", "changed", "build", "gpu", "python", "statement", "only", "base-evidence", "base-statement"})
INPUTS = {
    "gate": ("suite", "measure", "stale", "fail-on", "base", "changed", "only", "out", "gpu", "toolchain", "python", "build"),
    "require": (
        *("evidence", "needs", "demand", "statement", "suite", "base", "base-evidence", "base-statement", "out", "toolchain"),
        "build",
    ),
    "needs-gpu": ("evidence", "statement", "suite", "base", "out", "toolchain"),
    "answered": ("evidence", "statement", "suite", "base", "needs", "demand", "out", "toolchain"),
    "judge": ("evidence", "suite", "out"),
    "statement": ("evidence", "out", "predicate"),
    "doctor": ("gpu", "python"),
    "calibrate": ("suite", "out", "gpu", "python"),
    "selftest": ("out", "gpu", "python"),
    "history": ("evidence", "statement", "protected", "suite", "db"),
    "dashboard": ("db", "suite", "out"),
}
OUTCOMES = ("PASS", "FAIL", "INCONCLUSIVE")
"""Nothing else from the report's file becomes an output: a line end in it would add outputs."""
WITH_VERDICT = frozenset({"gate", "require", "answered"})
DECIDES = "needs-gpu"
COMMANDS = {"answered": "needs-gpu"}
"""Steps that run a command of another name."""
SUBCOMMANDS = {"history": ("add",), "dashboard": ("build",)}
WORKLOAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FLAGS = {"doctor": ("--runner",)}
ANY_VERDICT = frozenset({"judge"})
"""Commands that report on a verdict, and do not decide."""
SAME_NAME_OPTIONS = (
    *("needs", "demand", "statement", "predicate", "suite", "stale", "gpu", "out", "toolchain", "build", "base", "changed"),
    *("base-evidence", "base-statement"),
    *("db", "protected"),
)
"""Inputs that become options of the same name."""


class InputError(ValueError):
    """An input that is empty, not one of its choices, or looks like an option."""


def main(command: str) -> int:
    """Run the step and return its exit status."""
    try:
        inputs = read(command, os.environ)
    except InputError as error:
        return _refuse(str(error))
    old = f"Python {'.'.join(map(str, OLDEST))} or newer is needed: add actions/setup-python before this step"
    is_old = sys.version_info < OLDEST
    tool = (
        None
        if is_old
        else install(Path(os.environ.get("RUNNER_TEMP") or ".") / "flashcore-ci", extras(command, inputs, os.environ))
    )
    if tool is None:
        return _refuse(old if is_old else "flashcore-ci could not be installed: read the lines above")
    python = {"FLASHCORE_CI_PYTHON": inputs["python"]} if inputs.get("python") else {}
    before = _manifest(inputs)
    status = _run([tool, COMMANDS.get(command, command), *SUBCOMMANDS.get(command, ()), *arguments(command, inputs)], python)
    if command == DECIDES:
        return _write_decision(Path(inputs["out"]), status)
    if command not in WITH_VERDICT:
        return PASSED if command in ANY_VERDICT and status in TOLERATED["never"] else status
    if status == PASSED and _verdict(Path(inputs["out"])) != "PASS":
        return _refuse("flashcore-ci passed but wrote no green report")
    if command not in COMMANDS:
        _write_outputs(inputs, tool, status, is_new=_manifest(inputs) != before)
    return 0 if status in TOLERATED[inputs.get("fail-on", "inconclusive")] else status


def read(command: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Read the inputs from ``INPUT_…``. InputError names the first invalid one."""
    values = {name: environ.get(f"INPUT_{name.upper().replace('-', '_')}", "").strip() for name in INPUTS[command]}
    for name, value in values.items():
        if not value and name not in MAY_BE_EMPTY:
            raise InputError(f"{name}: is empty")
        if not value.isprintable() and name != "needs":
            raise InputError(f"{name}: {value!r} has characters that cannot be printed")
        if value.startswith("-"):
            raise InputError(f"{name}: {value!r} looks like an option")
        if value not in CHOICES.get(name, (value,)):
            raise InputError(f"{name}: {value!r} is not one of {', '.join(CHOICES[name])}")
    return values


def arguments(command: str, inputs: Mapping[str, str]) -> list[str]:
    """Return the arguments of the command. Each option and its value are one word."""
    words = [*FLAGS.get(command, ()), *((f"--{inputs['measure']}",) if "measure" in inputs else ())]
    words += [f"--only={name}" for name in inputs.get("only", "").split()]
    positional = ("evidence", "out") if command == "statement" else ("evidence",)
    words += [f"--{name}={inputs[name]}" for name in SAME_NAME_OPTIONS if inputs.get(name) and name not in positional]
    return [*words, "--", *(inputs[name] for name in positional)] if "evidence" in inputs else words


def extras(command: str, inputs: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the extras to install: none without measurements or a database.

    torch is included unless another interpreter has it.
    """
    if command in SUBCOMMANDS:
        return "[history]"
    if "python" not in inputs or inputs.get("measure") == "recorded":
        return ""
    return "[measure]" if inputs["python"] or environ.get("FLASHCORE_CI_PYTHON") else "[gpu]"


def install(folder: Path, extra: str) -> Path | None:
    """Install the tool into its own environment, once per job, from wheels with the hashes of the lock files.

    Only torch, which ``[gpu]`` adds, has no lock. None if pip fails.
    """
    tool = folder / "bin/flashcore-ci"
    stamp = folder / f"installed{extra}"
    if stamp.is_file():
        return tool
    for argv in ([sys.executable, "-m", "venv", folder], *pip_commands(folder, extra)):
        if _run(argv) != PASSED:
            return None
    stamp.touch()
    return tool


def pip_commands(folder: Path, extra: str) -> list[list[str | Path]]:
    """Return pip's command lines: first what the lock files pin, then the tool itself, without the network."""
    pip: list[str | Path] = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    more = {"": [], "[history]": [LOCKS / "history.lock"]}.get(extra, [LOCKS / "measure.lock"])
    locks = [LOCKS / "required.lock", *more]
    pinned = [*pip, "--require-hashes", "--only-binary=:all:", *(f"--requirement={lock}" for lock in locks)]
    commands = [pinned, [*pip, "--no-deps", "--no-index", "--no-build-isolation", CHECKOUT]]
    return [*commands, [*pip, f"{CHECKOUT}{extra}"]] if extra == "[gpu]" else commands


def _manifest(inputs: Mapping[str, str]) -> tuple[int, int] | None:
    """Identify the manifest in ``out``. A run that cannot start leaves that of an earlier one."""
    try:
        found = (Path(inputs.get("out", "")) / "manifest.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _write_outputs(inputs: Mapping[str, str], tool: Path, status: int, *, is_new: bool) -> None:
    """Write the outputs, and the packed run if there ``is_new`` one."""
    out = Path(inputs["out"])
    evidence = out.with_name(f"{out.name}.tar.xz")
    packed = is_new and (out / "manifest.json").is_file() and _run([tool, "pack", out, evidence]) == PASSED
    outputs = {"verdict": _verdict(out), "exit-code": status, "reports": out, "evidence": evidence if packed else ""}
    if os.environ.get("GITHUB_OUTPUT"):
        with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
            file.write("".join(f"{name}={value}\n" for name, value in outputs.items()))


def _write_decision(out: Path, status: int) -> int:
    """Write whether the GPU job is needed, and for what. Whatever is not known needs it whole."""
    needed, only = True, []
    try:
        decision = json.loads((out / "decision.json").read_bytes())
        needed, only = status != PASSED or decision["needed"] is not False, list(decision["only"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    is_plain = needed and status == INCONCLUSIVE and all(isinstance(name, str) and WORKLOAD.fullmatch(name) for name in only)
    outputs = {"needed": "true" if needed else "false", "only": " ".join(only) if is_plain else ""}
    if os.environ.get("GITHUB_OUTPUT"):
        with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
            file.write("".join(f"{name}={value}\n" for name, value in outputs.items()))
    return PASSED


def _verdict(out: Path) -> str:
    try:
        outcome = json.loads((out / "report.json").read_bytes())["outcome"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "INCONCLUSIVE"
    return next((known for known in OUTCOMES if known == outcome), "INCONCLUSIVE")


def _run(argv: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> int:
    return subprocess.run(argv, env={**os.environ, **(variables or {})}, check=False).returncode


def _refuse(message: str) -> int:
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::error title=flashcore-ci::{escaped}", flush=True)
    return USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
