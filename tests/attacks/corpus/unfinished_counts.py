"""A sanitizer that did not finish: it counted a part of the findings, under a limit above zero."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import tool_files as run
from attacking import Attack, AttackClass
from evidence_factories import good_observation
from factories import make_check, make_gate, make_limit, make_plan, make_waiver
from judging import judged

from flashcore_ci.judge import rules
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import Kind, Rule
from flashcore_ci.model.verdict import Outcome

FOUND = Finding(tool="memcheck", message="Uninitialized read", kernel="k", file="k.cu", line=7, thread="", block="")


def _count(value: float) -> Measured:
    return Measured(value=value, unit="count")


def _attack(
    name: str, found: float, limit: float, launches: Reading | None, *, check: str = "memcheck", waived: bool = False
) -> Attack:
    """Make an attack: so many findings were counted before the check ended."""

    def attempt(_: Path) -> bool:
        gate = make_gate("g", evidence=Kind.SANITIZER, metric=f"{check}/findings", rule=Rule.AT_MOST, limits=(make_limit(limit),))
        planned = make_check(gate)
        plan = make_plan((planned,))
        readings: tuple[tuple[str, Reading], ...] = ((f"{check}/findings", _count(found)),)
        readings += ((f"{check}/launches", launches),) if launches is not None else ()
        seen = good_observation(plan, run.BUILDS[0], Kind.SANITIZER, "big", readings=readings)
        seen = replace(seen, findings=(replace(FOUND, tool=check),))
        waivers = (make_waiver("g", finding="k k.cu:7 Uninitialized read"),) if waived else ()
        evidence = replace(run.RUN.evidence, observations=(seen,))
        (verdict,) = judged(evidence, plan=plan, waivers=waivers).verdicts
        return verdict.outcome in {Outcome.PASS, Outcome.WAIVED}

    return Attack(name=name, attempt=attempt)


def _lost(code: Code) -> Missing:
    return Missing(code=code, message="m")


def member(numbers: random.Random) -> Attack:
    """Count less than the limit, and end in any way."""
    found = numbers.randint(1, 20)
    code = numbers.choice((Code.HANG, Code.CRASH, Code.RAISED, Code.TOOL_FAILED, Code.INTERRUPTED, Code.OUT_OF_MEMORY))
    limit = found + numbers.randint(0, 100)
    return _attack(f"{found} of at most {limit}, {code}", found, limit, _lost(code), check=numbers.choice(SANITIZER_TOOLS))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a part of a count for the whole, as before."""
    monkeypatch.setattr(rules, "_unfinished", lambda *_: None)


CLASS = AttackClass(
    name="a count of findings that did not end",
    attacks=(
        *(_attack(f"{check} timed out after one", 1, 3, _lost(Code.HANG), check=check) for check in SANITIZER_TOOLS),
        _attack("the target crashed after one", 1, 1, _lost(Code.CRASH)),
        _attack("the log has no summary", 2, 10, _lost(Code.TOOL_FAILED)),
        _attack("nothing says how many launches were checked", 1, 3, None),
        _attack("a waiver names the only finding", 1, 0, _lost(Code.HANG), waived=True),
    ),
    member=member,
    mutant=mutant,
)
