"""Files that the bar reads next to the suite: pipes and devices hang it, many or packed ones fill the memory."""

from __future__ import annotations

import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from special_kinds import KINDS, asks

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import bar, evidence, statement
from flashcore_ci.store import record_files
from flashcore_ci.suite import acceptances, tables
from flashcore_ci.suite.problems import Problems

DEPENDENCIES = ("pyproject.toml", "uv.lock", "requirements.txt", "requirements-dev.txt", "constraints.txt", "setup.py", "Pipfile")
REFERENCES = ("noise/h200.json", "noise/h200.json.xz", "baselines/h200.json")
KIBIBYTES = b'{"x": "' + b"a" * 1000 + b'"}'


def special(name: str, kind: str) -> Attack:
    """Put what is no plain file where the bar reads one. True if it is read."""

    def attempt(folder: Path) -> bool:
        (folder / name).parent.mkdir(exist_ok=True)
        KINDS[kind](folder / name)

        def read() -> None:
            list(bar._dependencies(folder))
            list(bar._references(folder))

        return asks(read)

    return Attack(name=f"{kind} as {name}", attempt=attempt)


def refused(name: str, prepare: Callable[[Path], object], read: Callable[[Path], object]) -> Attack:
    """True if a folder is read that should be refused."""

    def attempt(folder: Path) -> bool:
        prepare(folder)
        try:
            read(folder)
        except FlashcoreError:
            return False
        return True

    return Attack(name=name, attempt=attempt)


def written(name: str, count: int, data: bytes) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        for number in range(count):
            (folder / name.format(number)).parent.mkdir(exist_ok=True)
            (folder / name.format(number)).write_bytes(data)

    return prepare


def records(count: int, size: int) -> Attack:
    """Bring so many packed records, each of ``size`` bytes when unpacked."""
    data = lzma.compress(b'{"a": "' + b" " * size + b'"}', preset=0)
    with_total = written("h200-{}.json.xz", count, data)
    return refused(f"{count} records of {size >> 20} MiB", with_total, lambda folder: record_files.read_all(dict, folder))


def packed(name: str, alter: Callable[[bytes], bytes], form: int = lzma.FORMAT_XZ) -> Attack:
    data = alter(lzma.compress(b"{}", format=form))
    return refused(
        f"a record {name}", written("h200.json.xz", 1, data), lambda folder: record_files.read(dict, folder / "h200.json.xz")
    )


def table(name: str, key: str, value: object, model: type[tables.Table] = tables.GateTable) -> Attack:
    """Give a gate or an acceptance this value."""
    gate = {"id": "g", "title": "t", "evidence": "timing", "metric": "m", "rule": "<", "why": "w", "owner": "o"}
    limit = {"value": 1.0, "unit": "%"}
    accept = {"base": "0" * 64, "difference": "1" * 64, "why": "known", "owner": "kernels"}
    waiver = {"gate": "g", "target": "t", "reason": "r", "owner": "o"}
    start = {tables.GateTable: {**gate, "limits": [limit]}, tables.WaiverTable: waiver}.get(model, accept)

    def attempt(_: Path) -> bool:
        problems = Problems("suite.toml")
        return problems.read(model, {**start, key: value}, "") is not None

    return Attack(name=f"{model.__name__}: {name}", attempt=attempt)


def sparse(folder: Path) -> bool:
    """Let the statement be compared with a file of 20 GB that has no blocks."""
    with (folder / "statement.json").open("wb") as file:
        file.truncate(20 << 30)
    return asks(lambda: statement.holds(folder / "statement.json", b"{}"), most=8)


def many_bundles(folder: Path) -> bool:
    """Bring runs that fill the memory together."""
    for number in range(40):
        (folder / f"{number}.tar.xz").touch()
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "read_run", lambda _: read.append(1))
        patch.setattr(evidence, "source_of", lambda _: type("Run", (), {"files": {"a": range(10 << 20)}}))
        try:
            evidence.read_bundles(folder)
        except FlashcoreError:
            return False
    return len(read) == 40


def member(numbers: random.Random) -> Attack:
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: special(numbers.choice((*DEPENDENCIES, *REFERENCES)), numbers.choice(sorted(KINDS))),
        lambda: table("rows", "limits", [{"value": 1.0, "unit": "%", "on": f"w{n}"} for n in range(numbers.randrange(501, 900))]),
        lambda: table("patterns", "on", [f"w{n}" for n in range(numbers.randrange(501, 900))]),
        lambda: table(
            "unseen",
            "why",
            "".join(numbers.choices("\u200b\u2060 \t.-\u00ad", k=numbers.randrange(1, 9))),
            acceptances.AcceptanceTable,
        ),
        lambda: packed("with bytes after its end", lambda data: data + numbers.randbytes(numbers.randrange(1, 50))),
    )
    return numbers.choice(makers)()


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read all of everything."""
    monkeypatch.setattr(files.stat, "S_ISREG", lambda _: True)
    monkeypatch.setattr(record_files, "MAX_BYTES", 1 << 50)
    monkeypatch.setattr(record_files, "_unpacked", lambda data: lzma.LZMADecompressor().decompress(data, files.MAX_RECORD))
    monkeypatch.setattr(record_files, "decode", lambda *_, **__: {})
    monkeypatch.setattr(evidence, "MAX_BYTES", 1 << 50)
    monkeypatch.setattr(acceptances, "MAX_FILES", 1 << 50)
    monkeypatch.setattr(
        acceptances, "_read", lambda _: acceptances.AcceptanceTable(base="0" * 64, difference="0" * 64, why="a", owner="a")
    )
    monkeypatch.setattr(Problems, "read", lambda _, model, table, key: model.model_construct(**table))
    monkeypatch.setattr(statement, "holds", lambda path, _: _all(path))


def _all(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return sum(len(os.read(descriptor, 1)) for _ in range(9)) > 0
    finally:
        os.close(descriptor)


ATTACKS = (
    *(special(name, kind) for number, name in enumerate((*DEPENDENCIES, *REFERENCES)) for kind in sorted(KINDS)[number % 2 :: 2]),
    records(3, 15 << 20),
    records(5, 8 << 20),
    packed("with a second stream", lambda data: data + lzma.compress(b'{"a": 1}')),
    packed("with bytes after its end", lambda data: data + b"x"),
    packed("without its checksum", lambda data: data[:-28]),
    packed("in the older format", lambda data: data, lzma.FORMAT_ALONE),
    refused(
        "300 acceptances",
        written("acceptances/{}.toml", 300, b""),
        lambda folder: acceptances.read_acceptances(folder / "s.toml"),
    ),
    table("600 rows", "limits", [{"value": 1.0, "unit": "%", "on": f"w{number}"} for number in range(600)]),
    table("600 patterns", "on", [f"w{number}" for number in range(600)]),
    table("600 tags", "tags", [f"w{number}" for number in range(600)]),
    table("an owner that cannot be seen", "owner", "\u200b"),
    table("an owner of blanks", "owner", "  "),
    table("a reason that cannot be seen", "why", "\u2060", acceptances.AcceptanceTable),
    table("a reason of dots", "why", "...", acceptances.AcceptanceTable),
    table("an owner that cannot be seen", "owner", "\u200b\u200b", acceptances.AcceptanceTable),
    table("a reason that cannot be seen", "reason", "\u2063", tables.WaiverTable),
    Attack(name="a statement of 20 GB", attempt=sparse),
    Attack(name="40 runs of 10 MB", attempt=many_bundles),
)
CLASS = AttackClass(name="files next to the suite", attacks=ATTACKS, member=member, mutant=mutant)
