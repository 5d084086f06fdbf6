"""Print the lowest version of every dependency as pip constraints, or try every command with them: ``make lowest``."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPENDENCY = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?\s*(?:>=|==)\s*([\w.]+)")
COMMAND = re.compile(r"^  ([a-z][\w-]*) ", re.MULTILINE)
SUITE = "gates/smoke.toml"
BUNDLE = "gates/evidence/nvidia-h200-hopper.tar.xz"
OUT = "build/lowest/judged"


def constraints(project: str) -> list[str]:
    """Return ``name==version`` of each dependency. ValueError if one has no lower bound."""
    found = []
    for dependency in tomllib.loads(project)["project"]["dependencies"]:
        match = DEPENDENCY.fullmatch(dependency)
        if match is None:
            raise ValueError(f"pyproject.toml: {dependency!r} has no lower bound of the form name>=version")
        found.append(f"{match[1]}=={match[2]}")
    return found


def commands(text: str) -> list[str]:
    """Return the names of the subcommands in a help text."""
    _, found, listed = text.partition("\nCommands:\n")
    return COMMAND.findall(listed.split("\n\n")[0]) if found else []


def helps(path: Sequence[str] = ()) -> Iterator[list[str]]:
    """Run ``--help`` of every command here, and yield those that failed."""
    from click.testing import CliRunner  # noqa: PLC0415 - the constraints are printed without it

    from flashcore_ci.cli.main import cli  # noqa: PLC0415 - as above

    argv = [*path, "--help"]
    done = CliRunner().invoke(cli, argv)
    print("flashcore-ci", *argv, done.exit_code, flush=True)
    if done.exit_code != 0:
        print(repr(done.exception), file=sys.stderr)
        yield ["flashcore-ci", *argv]
    for name in commands(done.output):
        yield from helps((*path, name))


def failures(program: str) -> list[list[str]]:
    """Return what failed of the help of all commands, the smoke suite's plan, and judging its recorded run."""
    failed = list(helps())
    for arguments in (["plan", "--suite", SUITE], ["judge", BUNDLE, "--suite", SUITE, "--out", OUT]):
        done = subprocess.run([program, *arguments], check=False, stdout=subprocess.DEVNULL, cwd=ROOT, timeout=600)
        print(program, *arguments, done.returncode, flush=True)
        if done.returncode != 0:
            failed.append([program, *arguments])
    return failed


def main(argv: list[str]) -> int:
    """Print the constraints, or try the program. 1 if a command failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--try", dest="program", type=Path, help="the flashcore-ci that is installed with this Python")
    program = parser.parse_args(argv).program
    if program is None:
        print("\n".join(constraints((ROOT / "pyproject.toml").read_text(encoding="utf-8"))))
        return 0
    failed = failures(str(program.resolve()))
    for line in failed:
        print("failed:", " ".join(line), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
