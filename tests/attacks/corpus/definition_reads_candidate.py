"""A definition that reads or imports the candidate, so that the reference can be the candidate."""

from __future__ import annotations

import importlib.util
import io
import linecache
import os
import random
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.worker import file_reads

Read = Callable[[Path], object]


def _attack(name: str, read: Read, *, copy: bool = False) -> Attack:
    """Read the candidate's file, or the copy that its process has."""

    def attempt(folder: Path) -> bool:
        (folder / "root").mkdir()
        (folder / "tree").mkdir()
        for place in ("root", "tree"):
            (folder / place / "candidate.py").write_text("VALUE = 1\n")
        file_reads.watch(folder / "root")
        file_reads.watch_copy(folder / "tree")
        file_reads.watch(folder / "root")  # again, before the workloads
        try:
            read(folder / ("tree" if copy else "root") / "candidate.py")
            return file_reads.candidate_read({file_reads.resolved(str(folder / "root/candidate.py"))}) is None
        finally:
            file_reads._copies.clear()
            file_reads._watched[:] = [Path("/nowhere")]
            file_reads._as_data.clear()
            file_reads._by_import.clear()

    return Attack(name=f"{name}{' of the copy' if copy else ''}", attempt=attempt)


def _imported(file: Path) -> None:
    spec = importlib.util.spec_from_file_location("hidden_candidate", file)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _linked(file: Path) -> None:
    (file.parent.parent / "link.py").symlink_to(file)
    (file.parent.parent / "link.py").read_bytes()


def _by_number(file: Path) -> None:
    os.close(os.open(file, os.O_RDONLY))


READS: dict[str, Read] = {
    "import": _imported,
    "run": lambda file: runpy.run_path(str(file)),
    "open": lambda file: file.read_text(),
    "exec": lambda file: exec(file.read_text(), {}),
    "a line": lambda file: linecache.updatecache(str(file)),
    "a raw file": lambda file: io.FileIO(file).close(),
    "a number": _by_number,
    "a copy": lambda file: shutil.copyfile(file, file.with_name("other.py")),
    "a link": _linked,
    "another spelling": lambda file: (file.parent / ".." / file.parent.name / file.name).read_bytes(),
}
ATTACKS = tuple(_attack(name, read, copy=copy) for name, read in READS.items() for copy in (False, True))


def _member(numbers: random.Random) -> Attack:
    first, second = numbers.sample(sorted(READS), 2)

    def both(file: Path) -> None:
        READS[first](file)
        READS[second](file)

    return _attack(f"{first} and {second}", both, copy=numbers.random() < 0.5)


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_reads, "candidate_read", lambda _: None)


CLASS = AttackClass(name="definition reads candidate", attacks=ATTACKS, member=_member, mutant=_mutant)
