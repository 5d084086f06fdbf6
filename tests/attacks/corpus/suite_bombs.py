"""Suites that take long to read, or expand into more than a machine can hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.suite import expand, loader, tables
from flashcore_ci.suite.expand import expand as expanded
from flashcore_ci.suite.loader import read_document
from flashcore_ci.suite.problems import Problems
from flashcore_ci.suite.tables import WorkloadTable

DEEP = 45
DOCUMENTS: dict[str, str] = {
    "a key of 300 parts": "a" + ".a" * 300 + " = 1",
    "a table of 250 parts": "[" + ".".join("a" * 250) + "]",
    "a quoted key of 250 parts": ".".join(['"a"'] * 250) + " = 1",
    "a list of tables of 250 parts": "[[" + ".".join("a" * 250) + "]]",
    "deep lists": "a = " + "[" * DEEP + "]" * DEEP,
    "deep inline tables": "a = " + "{a = " * DEEP + "1" + "}" * DEEP,
    "a deep dotted key": "a" + ".a" * DEEP + " = 1",
    "a long line": f"# {'x' * 5000}\na = 1",
    "a text in many lines": "a = '''\n" + ("x" * 80 + "\n") * 60 + "'''",
    "an integer of 65 bits": f"a = {1 << 65}",
    "a hexadecimal integer of 80 bits": f"a = {hex(1 << 80)}",
    "a binary integer of 90 bits": f"a = {bin(1 << 90)}",
    "a large file": "# comment\n" * 60_000 + "a = 1",
    "a long key": f"{'k' * 4097} = 1",
}
WORKLOAD = {"id": "w-{a}", "subject": "s", "collect": ["timing"]}
TABLES: dict[str, dict[str, object]] = {
    "axes of 3,000 combinations": {**WORKLOAD, "each": {"a": list(range(100)), "b": list(range(30))}},
    "three axes of 4,096 combinations": {**WORKLOAD, "each": {key: list(range(16)) for key in "abc"}},
    "3,000 cases": {**WORKLOAD, "cases": [{"a": i} for i in range(3000)]},
    "cases times axes": {**WORKLOAD, "cases": [{"b": i} for i in range(50)], "each": {"a": list(range(50))}},
    "an id that grows": {**WORKLOAD, "id": "{a}" * 90, "params": {"a": "x" * 100}},
    "a tag that grows": {**WORKLOAD, "tags": ["{a}" * 90], "params": {"a": "x" * 100}},
    "a subject that grows": {**WORKLOAD, "subject": "{a}" * 90, "params": {"a": "x" * 100}},
    "a parameter of 200 characters": {**WORKLOAD, "params": {"a": "x" * 200}},
    "a template of 400 characters": {**WORKLOAD, "id": "w" * 400, "params": {"a": 1}},
}


def read(text: str) -> Callable[[Path], bool]:
    def fooled(folder: Path) -> bool:
        (folder / "suite.toml").write_text(text)
        try:
            read_document(folder / "suite.toml")
        except SuiteError:
            return False
        return True

    return fooled


def grown(table: dict[str, object]) -> Callable[[Path], bool]:
    """True if the table becomes workloads."""

    def fooled(folder: Path) -> bool:
        problems = Problems("suite.toml")
        reader = loader._Reader(problems)
        found = problems.read(tables.WorkloadTable, table, "workload[0]")
        return found is not None and bool(reader.workloads([("workload[0]", found)])) and len(list(expanded(found))) > 0

    return fooled


def member(draw: random.Random) -> Attack:
    match draw.randrange(4):
        case 0:
            parts = draw.randrange(202, 600)
            key = ".".join(draw.choice(("a", "b", '"c"', "'d'")) for _ in range(parts))
            return Attack(name=f"a key of {parts} parts", attempt=read(f"{key} = 1"))
        case 1:
            sizes = [draw.randrange(46, 60), draw.randrange(46, 60)]
            each = {name: list(range(size)) for name, size in zip("ab", sizes, strict=True)}
            return Attack(name=f"axes of {sizes}", attempt=grown({**WORKLOAD, "id": "w-{a}-{b}", "each": each}))
        case 2:
            bits = draw.randrange(65, 4000)
            return Attack(name=f"an integer of {bits} bits", attempt=read(f"a = [1, {{b = {draw.choice('+-')}{1 << bits}}}]"))
        case _:
            depth = draw.randrange(42, 90)
            return Attack(name=f"{depth} lists", attempt=read("a = " + "[" * depth + "]" * depth))


def mutant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loader, "refuse_large", lambda *_, **__: None)
    for name in ("MAX_LINE", "MAX_DOTS", "MAX_WORKLOADS", "MAX_SUITE", "MAX_TABLES"):
        patch.setattr(loader, name, 1 << 40)
    patch.setattr(expand, "MAX_FILLED", 1 << 40)
    patch.setattr(tables, "MAX_PARAMETER", 1 << 40)
    patch.setattr(files, "MAX_RECORD", 1 << 40)

    class Unbounded(WorkloadTable):
        id: str
        subject: str

    patch.setattr(tables, "WorkloadTable", Unbounded)
    patch.setattr(loader.check, "is_name", lambda _: True)


WRITTEN = (
    *(Attack(name=name, attempt=read(text)) for name, text in DOCUMENTS.items() if name != "a text in many lines"),
    Attack(name="a long text in many lines", attempt=read(DOCUMENTS["a text in many lines"])),
    *(Attack(name=name, attempt=grown(table)) for name, table in TABLES.items()),
)
CLASS = AttackClass(name="suite bombs", attacks=WRITTEN, member=member, mutant=mutant)
