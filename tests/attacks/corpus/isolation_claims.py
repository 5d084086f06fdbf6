"""Evidence of a subject that nobody trusts, with less isolation than the suite demands."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from evidence_factories import good_observation, make_evidence
from factories import FINITE, STABILITY, make_build, make_check, make_description, make_plan
from judging import judged

from flashcore_ci.model import isolation
from flashcore_ci.model.evidence import Isolation
from flashcore_ci.model.suite import Gate, Trust
from flashcore_ci.model.verdict import Outcome

FULL = Isolation(
    mode=isolation.MODE, network=isolation.NETWORK, user="own", filesystem=isolation.FILESYSTEM, clock=isolation.CLOCK
)
FIELDS = ("mode", "network", "user", "filesystem", "clock")
DESCRIPTION = make_description(trust=Trust.NONE, candidate=("kernel/candidate.py",))


def outcome(gate: Gate, claimed: Isolation | None) -> Outcome:
    """Judge one check of an untrusted subject with this claim."""
    plan = replace(make_plan((make_check(gate),)), descriptions=(DESCRIPTION,))
    observation = good_observation(plan, make_build(), gate.evidence, "big", isolation=claimed)
    return judged(make_evidence(observations=(observation,)), plan=plan).verdicts[0].outcome


def _attack(name: str, claimed: Isolation | None, gate: Gate = STABILITY) -> Attack:
    def attempt(_: Path) -> bool:
        return outcome(gate, claimed) is Outcome.PASS

    return Attack(name=name, attempt=attempt)


def _with(**changes: Any) -> Isolation:
    return replace(FULL, **changes)


ATTACKS = (
    _attack("no isolation", None),
    _attack("no isolation, for correctness", None, FINITE),
    _attack("nothing but the mode", Isolation(mode=isolation.MODE)),
    *(_attack(f"no word for {name}", _with(**{name: ""})) for name in FIELDS),
    *(_attack(f"{name} is open", _with(**{name: "open"})) for name in FIELDS),
    *(_attack(f"{name} in capitals", _with(**{name: getattr(FULL, name).upper()})) for name in FIELDS),
    *(_attack(f"{name} with a blank", _with(**{name: getattr(FULL, name) + " "})) for name in FIELDS),
    _attack("the clock of correctness, for a time", _with(clock="none")),
    _attack("the clock of the candidate", _with(clock="candidate")),
    _attack("a network of words that mean nothing", _with(network="restricted")),
    _attack("the user of the supervisor", _with(user="shared")),
    _attack("the words of two fields exchanged", _with(network=FULL.filesystem, filesystem=FULL.network)),
    _attack("the network is open, for correctness", _with(network="open"), FINITE),
    _attack("the files are open, for correctness", _with(filesystem="open"), FINITE),
)


def member(numbers: random.Random) -> Attack:
    """Damage the word of one field."""
    name = numbers.choice(FIELDS)
    word = getattr(FULL, name)
    at = numbers.randrange(len(word) + 1)
    damaged = word
    while damaged == word:
        damaged = word[:at] + numbers.choice("xyz \t\u00a0") + word[at + numbers.randrange(3) :]
    return _attack(f"{name} is {damaged!r}", _with(**{name: damaged}))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for no isolation."""
    monkeypatch.setattr(isolation, "shortfall", lambda claimed, kind: "")


CLASS = AttackClass(name="claims of isolation that are too weak", attacks=ATTACKS, member=member, mutant=mutant)
