"""A subject or binding that reads a file of the checkout which no digest covers."""

from __future__ import annotations

import ctypes
import importlib
import io
import mmap
import os
import random
import runpy
import shutil
import sys
import zipfile
from collections.abc import Callable
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.worker import file_reads, guard
from flashcore_ci.worker.job import Job, Subject

Read = Callable[[Path], object]


def attack(name: str, read: Read, file: str = "table.py") -> Attack:
    """Read ``file``. The subject is declared, the table is not."""

    def attempt(folder: Path) -> bool:
        for path in ("subject.py", "table.py"):
            (folder / path).write_text(f"# {path}\nVALUE = 1\n")
        file_reads.watch(folder)
        before = set(sys.modules)
        try:
            read(folder / file)
        except (OSError, ImportError, zipfile.BadZipFile):
            pass  # the file was opened all the same
        finally:
            for module in set(sys.modules) - before:
                sys.modules.pop(module)
            job = Job(
                kind="timing", nonce="n", digest="d", root=folder, folder=folder, workloads=(), options={"python": ["subject.py"]},
                subjects=(Subject(name="s", file=folder / "subject.py", library=folder / "lib.so"),),
            )  # fmt: skip
            named = guard.undeclared_import(job)
            file_reads._watched[:] = [Path("/nowhere")]
            file_reads._as_data.clear()
            file_reads._by_import.clear()
        return named == ""

    return Attack(name=name, attempt=attempt)


def execute(file: Path) -> None:
    module = ModuleType("hidden_module")
    SourceFileLoader(module.__name__, str(file)).exec_module(module)


def mapped(file: Path) -> None:
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        memory.read()


def by_folder(file: Path) -> None:
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.close(os.open(file.name, os.O_RDONLY, dir_fd=folder))
    finally:
        os.close(folder)


def linked(file: Path) -> None:
    link = file.with_name("subject_link")
    link.symlink_to(file)
    link.read_bytes()


def moved(file: Path) -> None:
    before = Path.cwd()
    os.chdir(file.parent)
    try:
        Path(file.name).read_bytes()
    finally:
        os.chdir(before)


def compiled(file: Path) -> None:
    data = importlib.import_module("importlib._bootstrap_external")._code_to_hash_pyc(
        compile("x = 1", "x", "exec"), b"12345678", False
    )
    (file.parent / "hidden.pyc").write_bytes(data)
    SourcelessFileLoader("hidden_bytecode", str(file.parent / "hidden.pyc")).exec_module(ModuleType("hidden_bytecode"))


def copied(file: Path) -> None:
    shutil.copy(file, file.parent.parent / f"copy-{os.getpid()}")


def archived(file: Path) -> None:
    with zipfile.ZipFile(file):
        pass


READS: dict[str, Read] = {
    "read_bytes": lambda file: file.read_bytes(),
    "read_text": lambda file: file.read_text(),
    "a file object": lambda file: io.FileIO(file).close(),
    "open_code": lambda file: io.open_code(str(file)).close(),
    "os.open": lambda file: os.close(os.open(file, os.O_RDONLY)),
    "a name in bytes": lambda file: os.close(os.open(os.fsencode(file), os.O_RDONLY)),
    "reading and writing": lambda file: file.open("r+").close(),
    "appending and reading": lambda file: file.open("a+").close(),
    "a memory map": mapped,
    "a folder's number": by_folder,
    "a link": linked,
    "a relative path": moved,
    "a detour": lambda file: (file.parent / "." / ".." / file.parent.name / file.name).read_bytes(),
    "a copy": copied,
    "an archive": archived,
    "runpy": lambda file: runpy.run_path(str(file)),
    "exec": lambda file: exec(file.read_text()),
    "a library": lambda file: ctypes.CDLL(str(file)),
    "a library for Python": lambda file: ctypes.PyDLL(str(file)),
}


def member(rng: random.Random) -> Attack:
    """Read the undeclared file, or the subject's own text, in one of the ways."""
    name = rng.choice(sorted(READS))
    return attack(name, READS[name], rng.choice(("table.py", "subject.py")))


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Look at imported modules only."""
    patch.setattr(file_reads, "undeclared", lambda *_: set())


CLASS = AttackClass(
    name="reads that no digest covers",
    attacks=(
        *(attack(f"{name} of a table", read) for name, read in READS.items()),
        *(
            attack(f"{name} of its own source", READS[name], "subject.py")
            for name in ("read_text", "os.open", "exec", "a memory map")
        ),
        attack("a module that is nowhere in sys.modules", execute),
        attack("a compiled module without a source", compiled),
    ),
    member=member,
    mutant=mutant,
)
