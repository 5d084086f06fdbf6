"""Check that the lock files pin every package by version and hash, and fit pyproject.toml. Standard library only.

pip refuses a package without a hash, and a dependency that no lock names. What pip cannot see is checked here. With the path of
``uv`` as argument, write the lock files again: ``make lock``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ".github/locks"
HEAD = "# Python packages of `.github/actions/run.py`, by version and hash. Written by `make lock`, checked by `make lint`.\n"
OPTIONS = ("--quiet", "--generate-hashes", "--universal", "--python-version=3.11", "--no-header", "--no-annotate", "--upgrade")
PIN = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[0-9][0-9a-z.]*)(?: ; sys_platform == 'win32')?(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)
DEPENDENCY = re.compile(r"(?P<name>[\w.-]+)\s*(?P<rule>>=|==)\s*(?P<version>[\w.]+)")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Print every problem, or write the files. 1 when there is a problem."""
    if arguments:
        return write(arguments[0], root)
    found = list(problems(root))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


def problems(root: Path) -> Iterator[str]:
    """Yield a line for each problem."""
    for name, dependencies in needed(root).items():
        where = f"{LOCKS}/{name}"
        pins: dict[str, str] = {}
        for line in requirements((root / where).read_text(encoding="utf-8")):
            pin = PIN.fullmatch(line)
            if pin is None or pin["name"] in pins:
                yield f"{where}: {line[:80]!r} is not one package with version and hashes, or is there twice"
            else:
                pins[pin["name"]] = pin["version"]
        yield from (f"{where}: {problem}: run make lock" for problem in missing(dependencies, pins))


def needed(root: Path) -> dict[str, list[str]]:
    """Return what each lock file must pin, with all that it depends on."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        "required.lock": [*project["project"]["dependencies"], *project["build-system"]["requires"]],
        "measure.lock": project["project"]["optional-dependencies"]["measure"],
        "history.lock": project["project"]["optional-dependencies"]["history"],
    }


def write(uv: str, root: Path) -> int:
    """Pin the newest allowed versions. The exit status is that of uv."""
    for name, dependencies in needed(root).items():
        given = "\n".join(dependencies)
        done = subprocess.run([uv, "pip", "compile", *OPTIONS, "-"], check=False, input=given, text=True, stdout=subprocess.PIPE)
        if done.returncode != 0:
            return done.returncode
        (root / LOCKS / name).write_text(HEAD + done.stdout, encoding="utf-8")
    return 0


def requirements(text: str) -> Iterator[str]:
    """Yield each requirement with its hashes in one line, without comments."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    return (line for line in joined.splitlines() if line and not line.startswith("#"))


def missing(dependencies: list[str], pins: dict[str, str]) -> Iterator[str]:
    """Yield what is not pinned, or not in the version that pyproject.toml asks for."""
    for dependency in dependencies:
        need = DEPENDENCY.fullmatch(dependency)
        if need is None:
            yield f"{dependency!r} is not of the form name>=version"
            continue
        pinned = pins.get(re.sub(r"[-_.]+", "-", need["name"]).lower())
        if pinned is None:
            yield f"{need['name']} is not pinned"
        elif _numbers(pinned) < _numbers(need["version"]) or (need["rule"] == "==" and pinned != need["version"]):
            yield f"{need['name']} is pinned to {pinned}, and {dependency} is needed"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
