"""Read the file of the self-test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.selftest.model import REFUSED, Defect, SelfTest
from flashcore_ci.suite.lines import lines_of
from flashcore_ci.suite.loader import parse, read_text
from flashcore_ci.suite.problems import Problems, suggest
from flashcore_ci.suite.tables import Table, Text


class DefectTable(Table):
    """A row of ``defect``."""

    name: Text
    reason: Text
    gate: str = ""
    target: str = ""
    damage: str = ""
    slower: Annotated[float, Field(ge=0)] = 0.0


class SelfTestTable(Table):
    """The file."""

    suite: Text
    guard: Annotated[Text, Field(validation_alias=AliasChoices("guard", "compared"))]  # the name in bases until 0.1
    recording: str = ""
    clean: Annotated[list[Text], Field(min_length=1)]
    defect: Annotated[list[DefectTable], Field(min_length=1)]


def load(path: Path, *, shown: str = "") -> SelfTest:
    """Read the self-test, which errors call ``shown``. SuiteError lists every problem."""
    name = shown or str(path)
    if not path.is_file():
        raise SuiteError((f"{name}: there is no such file",), fix="give --file FILE, or name it in pyproject.toml")
    text = read_text(path)
    problems = Problems(name, places=lines_of(text))
    table = problems.read(SelfTestTable, parse(text, name), "")
    if table is not None:
        for index, row in enumerate(table.defect):
            _check(problems, f"defect[{index}] ({row.name})", row)
        names = [row.name for row in table.defect]
        for name in sorted({name for name in names if names.count(name) > 1}):
            problems.add("defect", f'the name "{name}" is given twice')
    if table is None or problems.lines:
        raise SuiteError(tuple(problems.lines), fix=f"correct {name}")
    defects, clean = tuple(_defect(row) for row in table.defect), tuple(table.clean)
    return SelfTest(suite=table.suite, guard=table.guard, recording=table.recording, clean=clean, defects=defects, file=name)


def _defect(row: DefectTable) -> Defect:
    return Defect(name=row.name, reason=row.reason, gate=row.gate, target=row.target, tampering=row.damage, slowdown=row.slower)


def _check(problems: Problems, key: str, row: DefectTable) -> None:
    if bool(row.target) == bool(row.damage):
        problems.add(key, "a defect has a target or a damage, and not both")
    if row.target and not row.gate:
        problems.add(key, "a defect with a target has a gate that is meant for it")
    if row.reason not in {*Code, REFUSED}:
        problems.add(f"{key}.reason", f'"{row.reason}" is not a reason code{suggest(row.reason, [*Code, REFUSED])}')
