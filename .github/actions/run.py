"""The steps of the actions `gate` and `require`: install flashcore-ci, run it, and hand its reports to GitHub.

Standard library only. Inputs come from the environment and leave as an argument list: no shell ever sees them. What the tool
prints is kept from being taken for commands to the runner: kernels under test may have named what is printed.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""flashcore-ci's own sources: the runner fetches an action with its whole repository."""

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
    "toolchain": ("pip", "system"),
    "fail-on": tuple(TOLERATED),
}
MAY_BE_EMPTY = frozenset({"base", "build", "python"})
INPUTS = {
    "gate": ("suite", "measure", "stale", "fail-on", "base", "out", "gpu", "toolchain", "python", "build"),
    "require": ("evidence", "needs", "suite", "out", "toolchain", "build"),
}
MOST_SUMMARY = 1 << 20
"""What GitHub takes of a step's summary, in bytes."""


class InputError(ValueError):
    """An input that is none of its choices."""


def main(command: str) -> int:
    """The exit status of the step."""
    try:
        inputs = read(command, os.environ)
    except InputError as error:
        return _refuse(str(error))
    if sys.version_info < OLDEST:
        return _refuse(f"Python {'.'.join(map(str, OLDEST))} or newer is needed: put actions/setup-python before this step")
    tool = install(Path(os.environ.get("RUNNER_TEMP") or ".") / "flashcore-ci", extras(inputs, os.environ))
    if tool is None:
        return _refuse("flashcore-ci could not be installed: see the lines above")
    python = {"FLASHCORE_CI_PYTHON": inputs["python"]} if inputs.get("python") else {}
    status = _run([str(tool), command, *arguments(command, inputs)], {**os.environ, **python})
    _hand_over(inputs, tool, status)
    return 0 if status in TOLERATED[inputs.get("fail-on", "inconclusive")] else status


def read(command: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The inputs, from ``INPUT_…`` as the action sets them. InputError names the first that is empty or none of its choices."""
    given = {name: environ.get(f"INPUT_{name.upper().replace('-', '_')}", "").strip() for name in INPUTS[command]}
    for name, value in given.items():
        if not value and name not in MAY_BE_EMPTY:
            raise InputError(f"{name}: is empty")
        if value not in CHOICES.get(name, (value,)):
            raise InputError(f"{name}: {value!r} is none of {', '.join(CHOICES[name])}")
    return given


def arguments(command: str, inputs: Mapping[str, str]) -> list[str]:
    """The command line after the command. Options and values are one word each: a value that looks like an option is none."""
    if command == "require":
        words = [f"--needs={inputs['needs']}", f"--suite={inputs['suite']}"]
    else:
        words = [f"--{inputs['measure']}"]
        words += [f"--{name}={inputs[name]}" for name in ("suite", "stale", "gpu")]
        words += ["--changed", f"--base={inputs['base']}"] if inputs["base"] else []
    words += [f"--{name}={inputs[name]}" for name in ("out", "toolchain", "build") if inputs[name]]
    return [*words, "--", inputs["evidence"]] if command == "require" else words


def extras(inputs: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """What the tool needs besides where there is something to measure; torch too, unless another interpreter has it."""
    if inputs.get("measure") != "live":
        return ""
    return "[measure]" if inputs["python"] or environ.get("FLASHCORE_CI_PYTHON") else "[gpu]"


def install(folder: Path, extra: str) -> Path | None:
    """The tool in an environment of its own; None when pip could not. A job that needs it twice installs once."""
    tool = folder / "bin/flashcore-ci"
    stamp = folder / f"installed{extra}"
    if stamp.is_file():
        return tool
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{CHECKOUT}{extra}"]
    for argv in ([sys.executable, "-m", "venv", folder], pip):
        if subprocess.run(argv, check=False).returncode != 0:
            return None
    stamp.touch()
    return tool


def _run(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; nothing that it prints is a command to the runner until the secret word."""
    word = secrets.token_hex(16)
    _say(f"::stop-commands::{word}")
    try:
        return subprocess.run(argv, env=environment, check=False).returncode
    finally:
        _say(f"\n::{word}::")


def _hand_over(inputs: Mapping[str, str], tool: Path, status: int) -> None:
    """Outputs, summary, annotations, and the packed run where there is one."""
    out = Path(inputs["out"])
    evidence = out.with_name(f"{out.name}.tar.xz")
    packed = (out / "manifest.json").is_file() and _well([tool, "pack", out, evidence])
    given = {"verdict": _verdict(out), "exit-code": status, "reports": out, "evidence": evidence if packed else ""}
    _append("GITHUB_OUTPUT", "".join(f"{name}={value}\n" for name, value in given.items()))
    summary = out / "summary.md"
    if summary.is_file():
        _append("GITHUB_STEP_SUMMARY", summary.read_bytes()[:MOST_SUMMARY].decode("utf-8", errors="ignore"))
    if (out / "report.json").is_file():
        _well([tool, "report", "--format=annotations", "--", out])


def _verdict(out: Path) -> str:
    try:
        return str(json.loads((out / "report.json").read_bytes())["outcome"])
    except (OSError, ValueError, KeyError, TypeError):
        return "INCONCLUSIVE"


def _well(argv: Sequence[str | Path]) -> bool:
    """Whether it went well; the verdict stands in either case."""
    return subprocess.run(argv, check=False).returncode == 0


def _append(variable: str, text: str) -> None:
    """To the file that the runner named; nowhere outside of GitHub."""
    if os.environ.get(variable):
        with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
            file.write(text)


def _refuse(message: str) -> int:
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    _say(f"::error title=flashcore-ci::{escaped}")
    return USAGE


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
