"""A verdict of one machine class that stands for another one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import machines

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"


def _attack(names: str, devices: list[str]) -> Attack:
    def attempt(_: Path) -> bool:
        try:
            return len(machines.assign(names, devices)) == len(devices)
        except FlashcoreError:
            return False

    return Attack(name=f"{', '.join(device or 'none' for device in devices)} for {names!r}", attempt=attempt)


ATTACKS = tuple(
    _attack(names, devices)
    for names, devices in [
        ("h100,h200", [H200]),
        ("h100,h200", [H200, H200]),
        ("h100,h200", [H100, H100, H200]),
        ("h100,h200", ["NVIDIA H100 H200", H200]),
        ("h100,h200", ["NVIDIA H100 H200"]),
        ("h100,h200", [H200, ""]),
        ("h100,h200", [H200, "NVIDIA H1000"]),
        ("h100,h200", [H200, "NVIDIA GH100x"]),
        ("h100-nvl,h200", [H100, H200]),
        ("h100", [H200]),
        ("h20", [H200]),
        ("h200", []),
        ("h200,h200", [H200, H200]),
        ("h200,", [H200]),
        ("", [""]),
        ("*", [H200]),
        ("h200 h100", [H200]),
    ]
)


def _member(numbers: random.Random) -> Attack:
    """Leave one of several classes out, or give another one twice."""
    classes = numbers.sample(["A100", "H100", "H200", "B200", "L40S"], numbers.randint(2, 5))
    given = [f"NVIDIA {name}" for name in classes]
    given[0] = numbers.choice(given[1:])
    return _attack(",".join(name.lower() for name in classes), given[numbers.randint(0, 1) :])


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take each evidence for what is demanded."""
    monkeypatch.setattr(machines, "assign", lambda names, devices: (names,) * len(devices))


CLASS = AttackClass(name="machines missing", attacks=ATTACKS, member=_member, mutant=_mutant)
