"""A pull request brings its own tool, or looks for tokens where its subjects run."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from bars import ORIGIN, blocks

from flashcore_ci.adapters.process import Completed
from flashcore_ci.judge import bar as judging
from flashcore_ci.model.bar import BarDifference
from flashcore_ci.model.codes import LOOSENING, PASSING
from flashcore_ci.model.verdict import Verdict
from flashcore_ci.run.base import bar
from flashcore_ci.run.request import Request

SECRET = "s3cret"
NAMES = (
    "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_CACHE_URL", "GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "INPUT_TOKEN", "AWS_SECRET_ACCESS_KEY",
    "PIP_INDEX_URL", "NPM_CONFIG__AUTH", "SSH_AUTH_SOCK", "LD_PRELOAD", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT",
)  # fmt: skip


def reads(name: str) -> Attack:
    """Make an attack: the child finds this variable."""

    def attempt(folder: Path) -> bool:
        found = bar.environment({name: SECRET, "PATH": "/bin"}, bar.Tool(folder=folder, name="a tool"))
        return SECRET in found.values()

    return Attack(name=f"read {name}", attempt=attempt)


def brings(name: str, files: tuple[str, ...], *, in_head: tuple[str, ...] = ()) -> Attack:
    """Make an attack: head's tool compares although the base has one. ``in_head`` are head's files."""

    def attempt(folder: Path) -> bool:
        for tree, names in (("base", files), ("head", in_head)):
            for file in names:
                (folder / tree / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / tree / file).touch()
            (folder / tree).mkdir(exist_ok=True)
        tool = bar.tool_of(folder / "base", folder / "head")
        return tool.folder != folder / "base" and not tool.caveat

    return Attack(name=name, attempt=attempt)


def says(name: str, text: str, *, status: int = 0, timed_out: bool = False) -> Attack:
    """Make an attack: the process that compares ends like this."""

    def attempt(folder: Path) -> bool:
        (folder / "out").write_text(text, encoding="utf-8")
        (folder / "err").write_text("Traceback", encoding="utf-8")
        files = {"stdout": folder / "out", "stderr": folder / "err"}
        done = Completed(argv=(), returncode=status, timed_out=timed_out, seconds=0.0, **files)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bar.process, "run", lambda *_, **__: done)
            request = Request(suite=Path("tiny.toml"), out=folder, environ={})
            difference = bar._ask(bar.Tool(folder=folder, name="a tool"), folder, request, folder)
        return not blocks(judging.judge_bar(difference, (), origin=ORIGIN))

    return Attack(name=name, attempt=attempt)


EQUAL = '{"base": "", "digest": "", "changes": [], "problem_code": "", "problem": "", "schema": "bar-v1"}'
CHANGE = '{"code": "within-limit", "where": "check", "before": "1", "after": "9", "subject": ""}'
COMMAND, PACKAGE = str(bar.COMMAND), str(bar.PACKAGE)

ATTACKS = (
    *(reads(name) for name in NAMES),
    brings("the base has the command", (COMMAND, PACKAGE)),
    brings("the base has the command, and head another", (COMMAND, PACKAGE), in_head=(COMMAND, PACKAGE)),
    brings("the base has a tool without the command", (PACKAGE,)),
    brings("the base has a tool without the command, head has one", (PACKAGE,), in_head=(COMMAND, PACKAGE)),
    says("nothing", ""),
    says("no JSON", "PASS"),
    says("an empty record", "{}"),
    says("half of a record", EQUAL[:40]),
    says("a record and more", EQUAL + EQUAL),
    says("a key more", EQUAL.replace('"base"', '"verdict": "PASS", "base"')),
    says("a key twice", EQUAL.replace('"base"', '"changes": [], "base"')),
    says("equal, without digests", EQUAL),
    says("another schema", EQUAL.replace("bar-v1", "bar-v0")),
    says("equal, and status 1", EQUAL, status=1),
    says("equal, and a signal", EQUAL, status=-9),
    says("equal, after the time was up", EQUAL, timed_out=True),
    says("a change with the code of a pass", EQUAL.replace("[]", f"[{CHANGE}]")),
    says("a change with an unknown code", EQUAL.replace("[]", f"[{CHANGE}]").replace("within-limit", "fine")),
    says("a problem with the code of a pass", EQUAL.replace('"problem_code": ""', '"problem_code": "same-code"').replace('"problem": ""', '"problem": "x"')),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Ask for any variable, or say anything."""
    if numbers.random() < 0.5:
        letters = "".join(numbers.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") for _ in range(numbers.randint(3, 12)))
        return reads(f"{letters}_TOKEN")
    place = numbers.randrange(len(EQUAL))
    status = numbers.choice([1, 2, 3, 4, 10, 11, 137, -6, -9, -11])
    forms: list[Callable[[], Attack]] = [
        lambda: says(f"the first {place} characters", EQUAL[:place]),
        lambda: says(f"equal, and status {status}", EQUAL, status=status),
    ]
    return numbers.choice(forms)()


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let head's tool compare with all variables, and take silence and unknown words for equality."""

    class Everything(tuple[str, ...]):
        __slots__ = ()

        def __contains__(self, _: object) -> bool:
            return True

    monkeypatch.setattr(bar, "KEPT_VARIABLES", Everything())
    monkeypatch.setattr(bar, "tool_of", lambda _, head: bar.Tool(folder=head, name="head's tool"))
    known = judging.judge_bar

    def believing(difference: BarDifference, *rest: Any, **more: Any) -> tuple[Verdict, ...]:
        """Take absent digests, unknown codes, and a problem with a harmless code for nothing."""
        changes = tuple(change for change in difference.changes if change.code in LOOSENING)
        digests = {"base": difference.base or "0", "digest": difference.digest or "0"}
        problem = "" if difference.problem_code in PASSING else difference.problem
        return known(replace(difference, changes=changes, problem=problem, **digests), *rest, **more)

    monkeypatch.setattr(judging, "judge_bar", believing)
    monkeypatch.setattr(bar, "unknown", lambda *_: BarDifference(base="0", digest="0", changes=()))


CLASS = AttackClass(name="a tool that lies", attacks=ATTACKS, member=member, mutant=mutant)
