"""FLOP and bytes that only a tool estimated decide which roof a blocking check asks for."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from evidence_factories import good_observation, make_evidence
from factories import SOL_DRAM, STABILITY, make_build, make_check, make_description, make_plan, make_problem
from judging import judged

from flashcore_ci.judge import judge
from flashcore_ci.model.suite import Gate, Roof
from flashcore_ci.model.verdict import Outcome


def _attack(name: str, gate: Gate, **work: Any) -> Attack:
    def attempt(_: Path) -> bool:
        plan = make_plan((make_check(gate),))
        problems = (make_problem("big", estimated=True, **work), make_problem("small"))
        plan = replace(plan, descriptions=(replace(make_description(), problems=problems),))
        observation = good_observation(plan, make_build(), gate.evidence, "big")
        report = judged(make_evidence(observations=(observation,)), plan=plan)
        return report.verdicts[0].outcome is Outcome.PASS or not report.verdicts[0].blocks

    return Attack(name=name, attempt=attempt)


ATTACKS = (
    _attack("the roof of memory", SOL_DRAM),
    _attack("a gate without roofs", replace(SOL_DRAM, roofs=())),
    _attack("the roof chooses the stability", STABILITY),
    _attack("no work at all", SOL_DRAM, flops=0.0, bytes=0.0),
    _attack("huge work", SOL_DRAM, flops=1e30, bytes=1.0),
    _attack("another unused roof", replace(SOL_DRAM, roofs=(Roof.MEMORY, Roof.COMPUTE))),
)


def _member(numbers: random.Random) -> Attack:
    gate = numbers.choice((SOL_DRAM, STABILITY))
    roofs = tuple(numbers.sample(list(Roof), numbers.randint(1, 3)))
    work = {"flops": 10 ** numbers.uniform(0, 20), "bytes": 10 ** numbers.uniform(0, 20)}
    return _attack(f"{gate.id} {roofs} {work}", replace(gate, roofs=roofs), **work)


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_estimated_work", lambda *_: "")


CLASS = AttackClass(name="estimated work", attacks=ATTACKS, member=_member, mutant=_mutant)
