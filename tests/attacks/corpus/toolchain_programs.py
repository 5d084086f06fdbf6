"""A program of the pinned toolchain that somebody replaced."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.build import programs
from flashcore_ci.model.errors import CannotCollectError

PROGRAMS = (
    "bin/nvcc", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvdisasm", "bin/nvcc.profile", "bin/crt/link.stub", "nvvm/bin/cicc",
    "nvvm/libdevice/libdevice.10.bc", "compute-sanitizer/compute-sanitizer", "compute-sanitizer/libsanitizer-collection.so",
    "lib/libcudart_static.a",
)  # fmt: skip
ADDED = ("bin/gcc", "bin/as", "bin/g++", "nvvm/bin/ld", "bin/crt/other.stub", "compute-sanitizer/libother.so")
PINNED = {name: hashlib.sha256(name.encode()).hexdigest() for name in PROGRAMS}


def attack(name: str, change: Callable[[Path], None]) -> Attack:
    def attempt(folder: Path) -> bool:
        for program in PROGRAMS:
            (folder / program).parent.mkdir(parents=True, exist_ok=True)
            (folder / program).write_text(program)
        status = {program: (folder / program).stat() for program in PROGRAMS}
        change(folder)
        for program, before in status.items():
            if (folder / program).is_file():
                os.utime(folder / program, ns=(before.st_atime_ns, before.st_mtime_ns))
        try:
            programs.check_programs(folder, PINNED)
        except CannotCollectError:
            return False
        return True

    return Attack(name=name, attempt=attempt)


def replace(program: str, at: int) -> Callable[[Path], None]:
    """Replace one byte, so that size and date stay."""

    def change(folder: Path) -> None:
        data = bytearray((folder / program).read_bytes())
        data[at % len(data)] ^= 1
        (folder / program).write_bytes(data)

    return change


def link(folder: Path) -> None:
    (folder / "other").write_text("other")
    (folder / "bin/nvcc").unlink()
    (folder / "bin/nvcc").symlink_to(folder / "other")


def exchange(folder: Path) -> None:
    (folder / "bin/nvcc").write_text("bin/ptxas")


def cut(folder: Path) -> None:
    (folder / "bin/ptxas").write_bytes(b"")


def member(rng: random.Random) -> Attack:
    """Replace a byte of a program, or add a program that is found first."""
    if rng.random() < 0.3:
        name = f"{rng.choice(('bin', 'nvvm/bin'))}/{rng.choice(('gcc', 'as', 'ld', 'collect2'))}{rng.randint(0, 99)}"
        return attack("an added program", lambda folder: (folder / name).write_text(name) and None)
    return attack("a changed program", replace(rng.choice(PROGRAMS), rng.randint(0, 99)))


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Trust the marker of the installation."""
    patch.setattr(programs, "check_programs", lambda *_: "")


CLASS = AttackClass(
    name="a replaced toolchain",
    attacks=(
        *(attack(f"a changed {name}", replace(name, 3)) for name in PROGRAMS),
        *(attack(f"an added {name}", lambda folder, name=name: (folder / name).write_text(name)) for name in ADDED),
        attack("a removed profile of nvcc", lambda folder: (folder / "bin/nvcc.profile").unlink()),
        attack("a link to another program", link),
        attack("two programs that changed places", exchange),
        attack("an empty program", cut),
    ),
    member=member,
    mutant=mutant,
)
