"""A workflow that lets the pull request judge itself: rights, events, refs, steps, conditions, inputs, machines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import workflow_mutants
import workflow_policy
from attacking import Attack, AttackClass


def _attack(name: str, flows: workflow_mutants.Flows) -> Attack:
    def attempt(_: Path) -> bool:
        return workflow_policy.problems(flows) == []

    return Attack(name=name, attempt=attempt)


def _member(numbers: random.Random) -> Attack:
    return _attack(*workflow_mutants.generated(numbers))


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_policy, "problems", lambda _: [])


CLASS = AttackClass(
    name="workflow weakened",
    attacks=tuple(_attack(name, workflow_mutants.mutant(change)) for name, change in workflow_mutants.WRITTEN.items()),
    member=_member,
    mutant=_mutant,
)
