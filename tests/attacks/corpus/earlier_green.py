"""A green of an earlier run that outlives a refusal: the next step reads the files, and not the exit code."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import machines, needs_gpu, required_check
from flashcore_ci.run.request import Request

GREEN = ("report.json", "comment.md", "summary.md", "junit.xml")
Refused = Callable[[Request, Path], object]


def attack(name: str, refused: Refused, *folders: str, files: tuple[str, ...] = GREEN) -> Attack:
    """Run what must be refused where an earlier run was green. True if a file of that run is left."""

    def attempt(folder: Path) -> bool:
        (folder / "suite.toml").touch()
        request = Request(suite=folder / "suite.toml", out=folder / "out", environ={})
        for place in (request.out / inner for inner in folders or (".",)):
            place.mkdir(parents=True)
            (place / ".flashcore-ci").touch()
            for file in files:
                (place / file).write_text("green")
        try:
            refused(request, folder / "evidence.tar.xz")
        except FlashcoreError:
            return any(path.name in files for path in request.out.rglob("*"))
        return True

    return Attack(name=name, attempt=attempt)


def demanded(names: str, count: int) -> Refused:
    return lambda request, evidence: machines.demand(names, [evidence] * count, request)


def decided(**results: str) -> Refused:
    needs = json.dumps({name: {"result": result} for name, result in results.items()})
    return lambda request, evidence: needs_gpu.needs_gpu(
        evidence, request, lambda _: None, base="main", statement=evidence, needs=needs, demand="ci decide"
    )


def required(**results: str) -> Refused:
    needs = json.dumps({name: {"result": result} for name, result in results.items()})
    return lambda request, evidence: required_check.require(
        evidence, request, lambda _: None, needs=needs, demand="ci gpu", base=None
    )


def member(draw: random.Random) -> Attack:
    result = draw.choice(["failure", "cancelled", "skipped", "timed_out"])
    classes = draw.sample(["a100", "h100", "h200", "b200", "l40s"], draw.randint(1, 4))
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: attack(f"evidence of {len(classes)} classes cannot be read", demanded(",".join(classes), 1), *classes),
        lambda: attack(f"no GPU is needed, and ci is {result}", decided(ci=result, decide="success"), files=("decision.json",)),
        lambda: attack(f"the GPU job is {result}", required(ci="success", gpu=result)),
    )
    return draw.choice(makers)()


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Remove nothing before the answer is known."""
    for module in (machines, required_check, needs_gpu):
        patch.setattr(module, "reports", SimpleNamespace(clear=lambda _: None))
    patch.setattr(needs_gpu, "DECISION", "other.json")


CLASS = AttackClass(
    name="a green of an earlier run",
    attacks=(
        attack("the evidence of two classes cannot be read", demanded("h100,h200", 2), "h100", "h200"),
        attack("the evidence of one class is absent", demanded("h100,h200", 1), "h200"),
        attack("no GPU is needed, and a job failed", decided(ci="success", decide="failure"), files=("decision.json",)),
        attack("no GPU is needed, and a job is absent", decided(ci="success"), files=("decision.json",)),
        attack("no GPU is needed, and the report is green", decided(ci="failure", decide="success")),
        attack("a required job was skipped", required(ci="success", gpu="skipped")),
        attack("a required job is absent", required(ci="success")),
    ),
    member=member,
    mutant=mutant,
)
