"""A slower build of both sides: head's compile options must not reach the base of the comparison."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from factories import make_suite

from flashcore_ci.adapters import nvcc
from flashcore_ci.model.options import CompileOptions, for_device
from flashcore_ci.run.base import prepare

FAST = CompileOptions(architectures=("sm_90a",), fast_math=True)


def attack(name: str, base: CompileOptions | None, **changes: Any) -> Attack:
    """It fools the gate if the base is compiled with head's options. ``base``: None if it has no suite of this name."""

    def attempt(_folder: Path) -> bool:
        head = make_suite(build=replace(base or FAST, **changes))
        own = make_suite(build=base) if base is not None else None
        used = prepare.compiled_as(own, head).build
        return nvcc.options_of(for_device(used, head.ridge.device)) == nvcc.options_of(for_device(head.build, head.ridge.device))

    return Attack(name=name, attempt=attempt)


def member(rng: random.Random) -> Attack:
    """Any option that the base does not have."""
    changes: dict[str, Any] = {"optimization": rng.randint(0, 2), "defines": (f"UNROLL={rng.randint(0, 99)}",)}
    return attack("a slower build", FAST, **changes)


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Compile the base as head's suite says."""
    patch.setattr(prepare, "compiled_as", lambda own_suite, suite: suite)


CLASS = AttackClass(
    name="a slower build of the base",
    attacks=(
        attack("no fast math", FAST, fast_math=False),
        *(attack(f"level {level}", FAST, optimization=level) for level in (0, 1, 2)),
        attack("another definition", FAST, defines=("UNROLL=1",)),
        attack("another architecture", FAST, architectures=("sm_90",)),
        attack("another standard", FAST, standard="c++20"),
        attack("the base has no such suite", None),
    ),
    member=member,
    mutant=mutant,
)
