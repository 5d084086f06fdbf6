"""Compare the bar of two checkouts: what each asks, read by one version of the tool."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.build.interpreted import LOCKS
from flashcore_ci.build.sources import Sources
from flashcore_ci.collect.describe import describe
from flashcore_ci.model.bar import BarDifference, Side
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError, FlashcoreError, SuiteError
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.subject import Description
from flashcore_ci.plan.bar import bar_of_new, compare
from flashcore_ci.plan.planner import make_plan
from flashcore_ci.run.references import BASELINES, NOISE
from flashcore_ci.store.record_files import PATTERN
from flashcore_ci.suite.loader import load, read_document
from flashcore_ci.suite.project import read_project

PROJECT = "pyproject.toml"
PROJECT_KEYS = ("build-system", "dependency-groups")
TOOL_KEYS = ("uv", "pdm", "poetry", "hatch", "setuptools")
DEPENDENCY_KEYS = ("dependencies", "optional-dependencies", "requires-python", "scripts", "entry-points")


def compare_trees(base: Path, head: Path, suite: Path, *, python: Path, scratch: Path) -> BarDifference:
    """Compare the suite of two checkouts. What this version cannot read is a problem of the result, not an error."""
    if suite.is_absolute() or not (head / suite).resolve().is_relative_to(head.resolve()):
        return unknown(f"the suite {suite} is not inside the checkout, so the base has no version of it")
    try:
        before = read_side(base, suite, python=python, scratch=scratch / "base") if (base / suite).is_file() else None
    except (SuiteError, CannotCollectError) as error:
        return unknown(f"the base's suite cannot be read: {_first_line(error)}")
    try:
        after = read_side(head, suite, python=python, scratch=scratch / "head")
    except SuiteError as error:
        return unknown(f"the base's tool cannot read {suite.as_posix()}: {_first_line(error)}", Code.NEWER_SUITE)
    except CannotCollectError as error:
        return unknown(f"head's suite cannot be read: {_first_line(error)}")
    return compare(before, after) if before is not None else bar_of_new(after, suite.as_posix())


def unknown(problem: str, code: Code = Code.BAR_UNKNOWN) -> BarDifference:
    """Say why nothing was compared."""
    return BarDifference(base="", digest="", changes=(), problem_code=code, problem=problem)


def read_side(root: Path, suite: Path, *, python: Path, scratch: Path) -> Side:
    """Read all that the checkout at ``root`` asks. SuiteError lists what this version cannot read."""
    loaded = load(root / suite, root=root)
    descriptions = describe(loaded, root=root, python=python, scratch=scratch)
    make_plan(loaded, descriptions, compared=True)  # a suite that cannot be planned asks nothing
    project = read_project(root)
    selftest = _selftest(root, suite, project.path_of("selftest"))
    name = selftest.get("suite")
    broken = root / name if isinstance(name, str) else None
    return Side(
        suite=loaded,
        descriptions=descriptions,
        references=dict(_references((root / suite).parent)),
        subjects={description.subject: subject_digest(description, root) for description in descriptions},
        dependencies=dict(_dependencies(root)),
        project=project.resolved(),
        selftest=selftest,
        selftest_suite=load(broken, root=root) if broken is not None and broken.is_file() else None,
    )


def _selftest(root: Path, suite: Path, default: Path) -> Mapping[str, Any]:
    """Read the self-test that guards this suite, by default the project's. SuiteError for two."""
    own = read_document(root / default) if (root / default).is_file() else {}
    guards: dict[str, Any] = {}
    for file in {root / default, *(root / suite).parent.glob("*.toml")}:
        with contextlib.suppress(SuiteError):  # a file that cannot be read guards nothing
            document = read_document(file)
            guards |= {file.name: document} if document.get("guard") == suite.as_posix() else {}
    if len(guards) > 1:
        raise SuiteError((f"{' and '.join(sorted(guards))} are self-tests of {suite.as_posix()}",), fix="join them")
    return next(iter(guards.values()), own)


def subject_files(description: Description, root: Path) -> tuple[str, ...]:
    """Name the subject's file, and the Python files next to it that it uses. The others belong to the kernel.

    ``binding`` lists them. Without a build there is no such list, so all files next to it count.
    """
    folder = PurePosixPath(description.file).parent
    near = (path.relative_to(root).as_posix() for path in (root / folder).glob("*.py"))
    binding = description.build.binding if description.build is not None else near
    return tuple(sorted({description.file, *(path for path in binding if PurePosixPath(path).parent == folder)}))


def subject_digest(description: Description, root: Path) -> str:
    """Digest the tokens of the subject's files."""
    return Sources(root).python_digest(subject_files(description, root), exact=bool(description.candidate))


def _references(folder: Path) -> Iterator[tuple[str, str]]:
    for name in (NOISE, BASELINES):
        for file in sorted((folder / name).glob(PATTERN)):
            yield f"{name}/{file.name}", _file_digest(file)


def _dependencies(root: Path) -> Iterator[tuple[str, str]]:
    document: Mapping[str, Any] = {}
    try:
        document = read_document(root / PROJECT) if os.path.lexists(root / PROJECT) else {}
    except SuiteError:
        yield PROJECT, _file_digest(root / PROJECT)
    tables = {key: document.get(key) for key in PROJECT_KEYS}
    for table, keys in (("project", DEPENDENCY_KEYS), ("tool", TOOL_KEYS)):
        inner = document.get(table)
        tables |= {f"{table}.{key}": inner.get(key) if isinstance(inner, dict) else inner for key in keys}
    for key, value in tables.items():
        if value is not None:
            yield f"{PROJECT} {key}", digest_of(json.dumps(value, sort_keys=True, default=str))
    for pattern in LOCKS:
        for file in sorted(root.glob(pattern)):
            yield file.relative_to(root).as_posix(), _file_digest(file)


def _file_digest(file: Path) -> str:
    try:
        return hashlib.sha256(files.read(file, limit=files.MAX_RECORD)).hexdigest()
    except OSError as error:
        raise SuiteError((f"{file}: cannot be read: {error.strerror}",), fix="restore the file") from None


def _first_line(error: FlashcoreError) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
