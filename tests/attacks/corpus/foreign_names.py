"""Names and paths in foreign problems that would leave their folder, hide, or end a comment of a file that is written."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from pathlib import Path

import foreign_files
import pytest
from attacking import Attack, AttackClass

from flashcore_ci.scaffold import foreign, texts
from flashcore_ci.scaffold.foreign import Case, ForeignError, Problem

NAMES = (
    *("../../.github/workflows/x", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "a\nb", "a\x00b", "a\x1b[2Jb", "a\u202eb", "a b"),
    *(".hidden", "-rf", "a..b", "é", "a" * 200, "a\u200bb", "a::b", "a;b"),
)
PATHS = (
    *(
        "../kernel.py",
        "/tmp/kernel.py",
        "a/../../k.py",
        "./k.py",
        "a//k.py",
        "k.py/",
        "a\\..\\k.py",
        "k\n.py",
        "k\x00.py",
        ".git/hooks/x",
    ),
    *("~/k.py", "k\u202e.py", "", ".", "a/./k.py", "-k.py"),
)
COMMENTS = ('x"""\nimport os\n"""', "x\nname = 'y'\n#", "x\r\n[[waiver]]", 'x""" + 1', "{name}", "x\\")


def _accepted(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except ForeignError:
        return False
    return True


def _name(name: str) -> Attack:
    def attempt(folder: Path) -> bool:
        return _accepted(lambda: foreign_files.problems(folder, made=foreign_files.definition(name=name)))

    return Attack(name=f"definition {name[:30]!r}", attempt=attempt)


def _path(path: str) -> Attack:
    def attempt(folder: Path) -> bool:
        solved = foreign_files.solution(path=path, entry_point=f"{path}::scaled")
        return _accepted(lambda: foreign_files.problems(folder, solved=solved))

    return Attack(name=f"source {path[:30]!r}", attempt=attempt)


def _comment(text: str) -> Attack:
    def attempt(_: Path) -> bool:
        origin, chosen = foreign.shown(text), foreign_files.Problem
        problem = chosen(
            name="n", origin=origin, command="import", cases=(Case(id="1", params={}),), candidate=foreign.Candidate(), source="x"
        )
        return origin == text or _is_changed(problem)

    return Attack(name=f"comment {text[:30]!r}", attempt=attempt)


def _is_changed(problem: Problem) -> bool:
    """Tell whether the definition has another shape than that of a harmless origin."""
    tree = ast.parse(texts.definition(problem, {}, folder="gates"))
    return not ast.get_docstring(tree) or len([node for node in tree.body if isinstance(node, ast.Import)]) != 2


ATTACKS = (*map(_name, NAMES), *map(_path, PATHS), *map(_comment, COMMENTS))
ODD = "\x00\x01\x07\x08\n\r\t\x1b\x7f\x85\u200b\u202e\u2028 :;|&$`'\"<>*?~{}()"


def _member(numbers: random.Random) -> Attack:
    place = numbers.randint(0, 5)
    name = f"{'kernel'[:place]}{numbers.choice(ODD)}{'kernel'[place:]}"
    return numbers.choice((_name, _path))(name)


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "named", lambda text, _: text)
    monkeypatch.setattr(foreign, "plain_path", lambda text: text)
    monkeypatch.setattr(foreign, "shown", lambda text: text)


CLASS = AttackClass(name="foreign names", attacks=ATTACKS, member=_member, mutant=_mutant)
