"""The defaults of the repository, and the base's word on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flashcore_ci.adapters import git
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.run.request import Request
from flashcore_ci.suite.project import FILE, parse_project, read_project


def default_path(key: str) -> Path:
    """Return the default of the option ``key`` in this checkout. SuiteError if its pyproject.toml is wrong."""
    return read_project(Path.cwd()).path_of(key)


def suite_option(request: Request) -> list[tuple[str, str]]:
    """Return the option that a hint needs to name this suite: none if it is the default one."""
    try:
        is_default = request.suite_is_default or request.suite == read_project(request.root).path_of("suite")
    except SuiteError:
        is_default = False
    return [] if is_default else [("--suite", str(request.suite))]


def by_suite_of_base(request: Request, *, logs: Path) -> Request:
    """Judge by the default suite of the base, unless the user named one: a pull request must not choose an easier one."""
    if request.base is None or not request.suite_is_default:
        return request
    data = git.file_at(request.repository, request.base, FILE, logs=logs)
    return replace(request, suite=parse_project(data or b"").path_of("suite"))
