"""A file or folder of a subject whose name the compiler, its shell or its linker takes for something else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import tiny_kernel
from attacking import Attack, AttackClass

from flashcore_ci.build import subjects
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.errors import SuiteError

NAMES = (
    "-w", "-optf=evil.cu", "--options-file=evil.cu", "@evil.cu", "-o.cu", "-include.cu", "-ccbin=evil", "-DX.cu", "-Xptxas", "-I.",
    "a$(touch x).cu", "a`touch x`.cu", "a b.cu", "a,-w.cu", "a;b.cu", "a\nb.cu", "a'b.cu", 'a"b.cu', "a\\b.cu", "kernel/-w.cu", "*.cu", "a=b.cu",
)  # fmt: skip
KEYS = ("launchers", "includes")


def attack(key: str, name: str) -> Attack:
    def attempt(folder: Path) -> bool:
        try:
            subjects._check_paths((tiny_kernel.description(**{key: (name,)}),), Sources(folder))
        except SuiteError:
            return False
        return True

    return Attack(name=f"{key}: {name!r}", attempt=attempt)


def member(rng: random.Random) -> Attack:
    """A strange character at any place of a name."""
    name = list("kernel/source.cu")
    name.insert(rng.randint(0, len(name)), rng.choice("@$`;,'\"\\*?=()<>|&!~# \t\n\u00e9"))
    return attack(rng.choice(KEYS), rng.choice(("-", "kernel/-")) + "x.cu" if rng.random() < 0.2 else "".join(name))


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Allow every name."""
    patch.setattr(subjects, "_PLAIN_PATH", re.compile(r".*", re.DOTALL))


CLASS = AttackClass(
    name="a path that is an option",
    attacks=tuple(attack(key, name) for key in KEYS for name in NAMES),
    member=member,
    mutant=mutant,
)
