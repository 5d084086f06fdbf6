"""A comparison with an old, slow anchor in the place of the comparison with the base."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from comparing import comparison, rounds, verdict_on

from flashcore_ci.judge import matching
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.identity import ANCHORED, SAME_CODE
from flashcore_ci.model.reading import measured
from flashcore_ci.model.verdict import Outcome

MARK = (ANCHORED, measured(1.0, "count"))


def _anchored(samples: Any, *readings: Any, **changes: Any) -> Observation:
    return replace(comparison(samples), readings=(*readings, MARK), **changes)


def _attack(name: str, observation: Observation, required: Mapping[str, Any] | None = None) -> Attack:
    def attempt(_folder: Path) -> bool:
        return verdict_on(observation, base=dict(required or {})).outcome is Outcome.PASS

    return Attack(name=name, attempt=attempt)


PLAIN = comparison(rounds())
SAME = _anchored((), (SAME_CODE, measured(1.0, "count")), base=PLAIN.identity)
ATTACKS = (
    _attack("an anchor that is as slow as head", _anchored(rounds())),
    _attack("an anchor that is slower than head", _anchored(rounds(percent=-20.0))),
    _attack("the anchor's digests are those of the base", _anchored(rounds()), {"big": PLAIN.base}),
    _attack("head is the anchor", SAME),
    _attack("the mark says zero", replace(comparison(rounds()), readings=((ANCHORED, measured(0.0, "count")),))),
)


def _member(numbers: random.Random) -> Attack:
    percent = -numbers.uniform(0.0, 50.0)
    return _attack(f"an anchor with {percent}", _anchored(rounds(percent=percent, seed=numbers.randrange(10**6))))


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "is_anchored", lambda _: False)


CLASS = AttackClass(name="anchor for base", attacks=ATTACKS, member=_member, mutant=_mutant)
