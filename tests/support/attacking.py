"""What an attack on the gate is, and how a class of them is written down.

A module in ``tests/attacks/corpus`` holds one class: ``CLASS = AttackClass(...)``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

Attempt = Callable[[Path], bool]
"""Try the attack in an empty folder. True if it was fooled: a green, a crash, a hang, or lost data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack. ``name`` is a short phrase. ``mutated`` is False if only the whole tool, and no mutant in the process, shows it open.

    Such an attack names in ``proof`` the commit or the report where it was green.
    """

    name: str
    attempt: Attempt
    mutated: bool = True
    proof: str = ""

    def __post_init__(self) -> None:
        if self.mutated == bool(self.proof):
            raise ValueError(f"{self.name}: an attack has a mutant or a proof, and not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackClass:
    """Attacks that one fix must stop.

    ``attacks`` are written by hand. ``member`` makes any number of others from a generator. ``mutant`` undoes the fix in this
    process: with it every attack is green. So each of them proves something.
    """

    name: str
    attacks: tuple[Attack, ...]
    member: Callable[[random.Random], Attack]
    mutant: Callable[[pytest.MonkeyPatch], None]

    def __post_init__(self) -> None:
        names = [attack.name for attack in self.attacks]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name}: two attacks have one name")
