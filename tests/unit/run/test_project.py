"""With a base, the suite that the base names rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.run import project
from flashcore_ci.run.request import Request

HARD = b'[tool.flashcore-ci]\nsuite = "gates/hard.toml"\n'


@pytest.fixture
def request_of_easy(monkeypatch: pytest.MonkeyPatch) -> Request:
    monkeypatch.setattr(project.git, "file_at", lambda *_, **__: HARD)
    return Request(suite=Path("gates/easy.toml"), out=Path("runs"), environ={}, base="0" * 40, suite_is_default=True)


def ruled(request: Request) -> Path:
    return project.by_suite_of_base(request, logs=Path()).suite


def test_the_default_is_the_bases(request_of_easy: Request) -> None:
    assert ruled(request_of_easy) == Path("gates/hard.toml")


def test_a_named_suite_is_kept(request_of_easy: Request) -> None:
    assert ruled(replace(request_of_easy, suite_is_default=False)) == Path("gates/easy.toml")
    assert ruled(replace(request_of_easy, base=None)) == Path("gates/easy.toml")


def test_a_base_without_a_table_has_the_old_default(request_of_easy: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project.git, "file_at", lambda *_, **__: None)
    assert ruled(request_of_easy) == Path("gates/hopper.toml")


def test_a_base_whose_table_is_wrong_is_an_error(request_of_easy: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project.git, "file_at", lambda *_, **__: b"[tool.flashcore-ci]\nsuite = 3\n")
    with pytest.raises(SuiteError):
        ruled(request_of_easy)


def test_hints_name_a_suite_that_is_not_the_default(request_of_easy: Request, tmp_path: Path) -> None:
    request = replace(request_of_easy, suite_is_default=False, checkout=tmp_path)
    assert project.suite_option(request) == [("--suite", "gates/easy.toml")]
    (tmp_path / "pyproject.toml").write_text('[tool.flashcore-ci]\nsuite = "gates/easy.toml"\n')
    assert project.suite_option(request) == []
    assert project.suite_option(request_of_easy) == []
