"""A pull request names another suite, or other files next to it, in pyproject.toml."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from bars import blocks, judged, read

from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.plan import bar
from flashcore_ci.run import place, project
from flashcore_ci.run.request import Request
from flashcore_ci.suite.project import Project, parse_project, read_project

HARD = b'[tool.flashcore-ci]\nsuite = "gates/hard.toml"\n'


def names(name: str, head: str, base: bytes | None = HARD) -> Attack:
    """Make an attack on the suite that is judged with a base. It is fooled if the judged suite is another than the base's."""

    def attempt(folder: Path) -> bool:
        (folder / "pyproject.toml").write_text(head)
        try:
            suite = read_project(folder).path_of("suite")
            request = Request(suite=suite, out=folder, environ={}, base="0" * 40, suite_is_default=True, checkout=folder)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(project.git, "file_at", lambda *_, **__: base)
                judged_suite = project.by_suite_of_base(request, logs=folder).suite
        except FlashcoreError:
            return False
        return judged_suite != parse_project(base or b"").path_of("suite")

    return Attack(name=name, attempt=attempt)


def moves(name: str, **paths: str) -> Attack:
    """Make an attack of other defaults. They must block."""

    def attempt(folder: Path) -> bool:
        base = replace(read(folder / "base"), project=Project(suite="gates/hard.toml").resolved())
        return not blocks(judged(base, replace(base, project=Project(**{"suite": "gates/hard.toml", **paths}).resolved())))

    return Attack(name=name, attempt=attempt)


def elsewhere(name: str, place_files: Callable[[Path], Path]) -> Attack:
    """Make an attack that makes another folder the top. It is fooled if the command works there."""

    def attempt(folder: Path) -> bool:
        (folder / ".git").mkdir()
        return place.top_of(place_files(folder)) != folder

    return Attack(name=name, attempt=attempt)


def _nested(folder: Path) -> Path:
    (folder / "sub").mkdir()
    (folder / "sub/pyproject.toml").write_text('[tool.flashcore-ci]\nsuite = "easy.toml"\n')
    return folder / "sub"


def _deep(folder: Path) -> Path:
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/pyproject.toml").write_text('[tool.flashcore-ci]\nsuite = "easy.toml"\n')
    return folder / "a/b"


ATTACKS = (
    names("another suite of the base", '[tool.flashcore-ci]\nsuite = "gates/smoke.toml"\n'),
    names("a new suite", '[tool.flashcore-ci]\nsuite = "gates/mine.toml"\n'),
    names("a suite in another folder", '[tool.flashcore-ci]\nsuite = "mine/hard.toml"\n'),
    names("no table any more", "[project]\n"),
    names("an empty table", "[tool.flashcore-ci]\n"),
    names("a table where the base has none", '[tool.flashcore-ci]\nsuite = "gates/smoke.toml"\n', None),
    names("a suite in a folder below", '[tool.flashcore-ci]\nsuite = "gates/mine/hard.toml"\n'),
    moves("another suite is the default", suite="gates/smoke.toml"),
    moves("another folder of evidence", evidence="mine/evidence"),
    moves("another self-test", selftest="mine/selftest.toml"),
    moves("another folder of subjects", subjects="mine"),
    moves("another suite of planted slowdowns", planted="mine/planted.toml"),
    elsewhere("a table in a folder below", _nested),
    elsewhere("a table between", _deep),
)


def member(numbers: random.Random) -> Attack:
    """Name any other path."""
    name = f"gates/{numbers.randrange(10**9)}.toml"
    if numbers.random() < 0.5:
        return names(name, f'[tool.flashcore-ci]\nsuite = "{name}"\n')
    return moves(name, **{numbers.choice(["suite", "evidence", "selftest", "planted", "subjects"]): name})


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take head's word, and the nearest table."""
    monkeypatch.setattr(project, "by_suite_of_base", lambda request, **_: request)
    monkeypatch.setattr(bar, "_change", lambda *_: None)
    monkeypatch.setattr(
        place,
        "top_of",
        lambda folder: next((each for each in (folder, *folder.parents) if os.path.lexists(each / "pyproject.toml")), folder),
    )


CLASS = AttackClass(name="another default suite", attacks=ATTACKS, member=member, mutant=mutant)
