"""A comparison that passes as the same code, although base and head differ or nothing compared them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import factories
import pytest
from attacking import Attack, AttackClass

from flashcore_ci.collect import comparison
from flashcore_ci.judge import judge, no_slower, unaffected
from flashcore_ci.model import identity as identities
from flashcore_ci.model.evidence import Identity, Observation
from flashcore_ci.model.identity import NO_MACHINE_CODE, SAME_CODE
from flashcore_ci.model.reading import Measured, Missing, Samples
from flashcore_ci.model.suite import Kind

PARTS = ("machine_code", "launcher", "binding", "subject", "workload", "collector")
IDENTITY = Identity(**{part: part for part in PARTS})
READING = ((SAME_CODE, Measured(value=1.0, unit="count")),)
SAMPLES = (("head/clock/sm", Samples(values=(1800.0,), unit="MHz")),)


def builds(name: str, base: dict[str, Any] | None, head: dict[str, Any] | None, **changed: str) -> Attack:
    """Compare two builds: None is no build, and ``changed`` are parts of head's identity."""

    def attempt(_: Path) -> bool:
        sides = [None if side is None else factories.make_build(**side) for side in (base, head)]
        return identities.is_same_code((IDENTITY, sides[0]), (replace(IDENTITY, **changed), sides[1]))

    return Attack(name=name, attempt=attempt)


def observed(name: str, change: Callable[[Observation], Observation]) -> Attack:
    """Judge an observation that passed as the same code before the change."""
    sound = Observation(kind=Kind.COMPARISON, target="big", identity=IDENTITY, base=IDENTITY, readings=READING)

    def attempt(_: Path) -> bool:
        return judge._is_same_code(change(sound))

    return Attack(name=name, attempt=attempt)


def uncovered(observation: Observation) -> Observation:
    nothing = replace(IDENTITY, machine_code=NO_MACHINE_CODE)
    return replace(observation, identity=nothing, base=nothing)


def member(rng: random.Random) -> Attack:
    """Change one thing that only the compiler of this machine sees, or leave it out."""
    part, value = rng.choice(("preprocessed", "host_objects")), rng.choice(("", f"other {rng.random()}"))
    sides = [{part: value}, {}]
    rng.shuffle(sides)
    return builds(f"other {part}", *sides)


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Decide by the base's identity alone, if there is one."""
    patch.setattr(identities, "is_same_host_code", lambda *_: True)
    patch.setattr(identities, "is_covered", lambda _: True)
    for module in (judge, no_slower):
        patch.setattr(module, "was_same_code", lambda observation: observation.base is not None)
    for module in (identities, comparison, unaffected):
        patch.setattr(module, "is_same_code", lambda *_: True)


CLASS = AttackClass(
    name="the same code that is not the same",
    attacks=(
        builds("other preprocessed text", {}, {"preprocessed": "other"}),
        builds("another host object", {}, {"host_objects": "other"}),
        builds("no preprocessed text on both sides", {"preprocessed": ""}, {"preprocessed": ""}),
        builds("no host objects on both sides", {"host_objects": ""}, {"host_objects": ""}),
        builds("a base of an older tool", {"preprocessed": "", "host_objects": ""}, {}),
        builds("no build of the base", None, {}),
        builds("no build of head", {}, None),
        builds("no build at all", None, None),
        *(builds(f"another {part}", {}, {}, **{part: "other"}) for part in PARTS),
        builds("code that no digest covers", {}, {}, machine_code=NO_MACHINE_CODE),
        observed("nobody compared the builds", lambda observation: replace(observation, readings=())),
        observed("a count of zero", lambda o: replace(o, readings=((SAME_CODE, Measured(value=0.0, unit="count")),))),
        observed("a reading that is missing", lambda o: replace(o, readings=((SAME_CODE, Missing(code="crash", message="x")),))),
        observed("it was timed", lambda observation: replace(observation, samples=SAMPLES)),
        observed("another base", lambda observation: replace(observation, base=replace(IDENTITY, launcher="other"))),
        observed("observed code that no digest covers", uncovered),
    ),
    member=member,
    mutant=mutant,
)
