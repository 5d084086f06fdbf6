"""Code that a framework compiles when it runs, which passes as the base's without a measurement."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.collect import comparison
from flashcore_ci.collect.comparison import Modules
from flashcore_ci.judge import no_slower
from flashcore_ci.model import identity as identities
from flashcore_ci.model.evidence import Identity, JitModule, Observation
from flashcore_ci.model.identity import NO_MACHINE_CODE, SAME_CODE
from flashcore_ci.model.jit import LIBRARY
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind

LAUNCH = ("softmax", "8,1,1/128,1,1")
MODULE = JitModule(framework="triton", name="softmax", digest="cubin", sources="s", launches=(LAUNCH,))
IDENTITY = Identity(machine_code=NO_MACHINE_CODE, launcher="", binding="b", subject="s", workload="w", collector="c")
EXTENSION = JitModule(framework=LIBRARY, name="mine.so", digest="d", sources="s")
Change = Callable[[Modules], Modules]


def one_side(name: str, change: Change) -> Attack:
    """Change what head's process compiled or launched."""
    return Attack(name=name, attempt=lambda _: comparison.is_same_when_run(((MODULE,), change((MODULE,)))))


def both_sides(name: str, change: Change) -> Attack:
    """See the same on both sides, but not all that runs."""
    return Attack(name=name, attempt=lambda _: comparison.is_same_when_run((change((MODULE,)), change((MODULE,)))))


def recorded(name: str, modules: Modules, **base: str) -> Attack:
    """Write into the evidence that both sides are the same."""

    def attempt(_: Path) -> bool:
        reading = ((SAME_CODE, Measured(value=1.0, unit="count")),)
        seen = Observation(
            kind=Kind.COMPARISON,
            target="softmax",
            identity=IDENTITY,
            base=replace(IDENTITY, **base),
            readings=reading,
            jit=modules,
        )
        return identities.was_same_code(seen)

    return Attack(name=name, attempt=attempt)


def each(**changes: object) -> Change:
    return lambda modules: tuple(replace(module, **changes) for module in modules)  # type: ignore[arg-type]


def member(rng: random.Random) -> Attack:
    """Launch differently, or other code."""
    size = lambda: ",".join(str(rng.randrange(9, 1024)) for _ in range(3))  # noqa: E731 - three numbers
    other = {"launches": ((MODULE.name, f"{size()}/{size()}"),)} if rng.random() < 0.5 else {"digest": f"{rng.random()}"}
    return one_side(f"head with {next(iter(other))}", each(**other))


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Trust kernels by their names."""
    patch.setattr(comparison, "is_same_when_run", lambda _: True)
    for module in (identities, no_slower):
        patch.setattr(module, "was_same_code", lambda observation: observation.base is not None)


CLASS = AttackClass(
    name="code compiled when it runs",
    attacks=(
        one_side("a loop inside the kernel", each(digest="other")),
        one_side("a Python loop that launches 50 times", each(launches=(LAUNCH,) * 50)),
        one_side("a smaller grid", each(launches=(("softmax", "1,1,1/128,1,1"),))),
        one_side("a smaller block", each(launches=(("softmax", "8,1,1/32,1,1"),))),
        one_side("a helper in another module", each(sources="other")),
        one_side("another configuration of the autotuner", each(configuration=(("BLOCK", "64"),))),
        one_side("one more kernel", lambda modules: (*modules, replace(MODULE, name="spin"))),
        one_side("one more kernel, of a library", lambda modules: (*modules, replace(MODULE, framework=LIBRARY, digest=""))),
        one_side("an extension in C++", lambda modules: (*modules, EXTENSION)),
        one_side("nothing seen of head", lambda _: ()),
        both_sides("nothing seen", lambda _: ()),
        both_sides("no launch seen", each(launches=())),
        both_sides("a kernel without a cubin", each(framework=LIBRARY, digest="")),
        both_sides("a cubin and a kernel without one", lambda modules: (*modules, replace(MODULE, framework=LIBRARY, digest=""))),
        both_sides("an extension whose headers no digest covers", lambda modules: (*modules, EXTENSION)),
        recorded("evidence without modules", ()),
        recorded("evidence with a module without a digest", (replace(MODULE, digest=""),)),
        recorded("evidence with an extension", (MODULE, EXTENSION)),
        recorded("evidence of other sources", (MODULE,), subject="other"),
        recorded("evidence of other versions or another lock file", (MODULE,), binding="other"),
    ),
    member=member,
    mutant=mutant,
)
