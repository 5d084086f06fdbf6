"""The defaults of a repository: ``[tool.flashcore-ci]`` in its pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath

from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import shorten
from flashcore_ci.model.errors import SuiteError

FILE = "pyproject.toml"
TABLE = "[tool.flashcore-ci]"
MAX_PROJECT = 512 * files.KIB
FALLBACK = "gates/hopper.toml"
"""The default suite of repositories from before this table."""


MEANING = {
    "suite": "The suite of every command without `--suite`.",
    "evidence": "The folder of recorded runs.",
    "subjects": "The folder of subjects without `file`.",
    "selftest": "The file of the self-test.",
    "planted": "The suite of planted slowdowns for `calibrate`.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Paths relative to the top folder. ``MEANING`` says of what."""

    suite: str = FALLBACK
    evidence: str = ""
    subjects: str = ""
    selftest: str = ""
    planted: str = ""

    def path_of(self, key: str) -> Path:
        """Return the path ``key``. By default it is next to the suite."""
        name = "evidence" if key == "evidence" else f"{key}.toml"
        return Path(getattr(self, key) or PurePosixPath(self.suite).parent / name)

    def resolved(self) -> dict[str, str]:
        """Return every path by its key."""
        return {
            field.name: self.subjects if field.name == "subjects" else str(self.path_of(field.name)) for field in fields(self)
        }


def read_project(root: Path) -> Project:
    """Read the table of a checkout. SuiteError lists every mistake in it."""
    try:
        return parse_project(files.read(root / FILE, limit=MAX_PROJECT))
    except FileNotFoundError:
        return Project()
    except OSError as error:
        raise SuiteError((f"{FILE}: cannot be read: {error.strerror}",), fix="restore the file") from None


def parse_project(data: bytes) -> Project:
    """Read the table from the content of pyproject.toml. SuiteError as ``read_project``."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SuiteError((shorten(f"{FILE}: not valid TOML: {error}"),), fix="correct the file") from None
    tool = document.get("tool")
    table = tool.get("flashcore-ci", {}) if isinstance(tool, Mapping) else {}
    problems = _problems(table)
    if problems:
        raise SuiteError(problems, fix=f"correct {TABLE} in {FILE}")
    return Project(**table)


def _problems(table: object) -> tuple[str, ...]:
    if not isinstance(table, Mapping):
        return (f"{FILE}: tool.flashcore-ci: a table is needed",)
    known, found = [field.name for field in fields(Project)], []
    for key, value in table.items():
        where = f"{FILE}: tool.flashcore-ci.{key}"
        if key not in known:
            from flashcore_ci.suite.problems import suggest  # noqa: PLC0415 - it imports pydantic, and completion needs speed

            found.append(f'{where}: unknown key "{key}"{suggest(key, known)}')
        elif not isinstance(value, str) or not value or not value.isprintable():
            found.append(f"{where}: a path in quotes is needed")
        elif PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
            found.append(f"{where}: {value} is not a path inside the checkout")
    return tuple(map(shorten, found))
