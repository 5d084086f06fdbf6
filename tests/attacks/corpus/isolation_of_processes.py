"""A result of the worker whose isolation is damaged, or holds for some of its processes only."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.collect import child
from flashcore_ci.model import isolation
from flashcore_ci.model.evidence import Isolation
from flashcore_ci.model.suite import Kind

FULL = {
    "mode": isolation.MODE,
    "network": isolation.NETWORK,
    "user": "own",
    "filesystem": isolation.FILESYSTEM,
    "clock": isolation.CLOCK,
}
GOOD = {"ms": 1.0, "isolation": FULL}


def _attack(name: str, *outcomes: dict[str, Any]) -> Attack:
    """Make an attack of several processes' outcomes. It fooled the collector if they count as isolated together."""

    def attempt(folder: Path) -> bool:
        kept = []
        for number, outcome in enumerate(outcomes):
            file = folder / f"{number}.json"
            content = {"schema": "result-v1", "kind": "timing", "nonce": "n", "job": "j", "environment": {}, "finished": True}
            file.write_text(json.dumps({**content, "started": None, "outcomes": {"w": outcome}}), encoding="utf-8")
            result = child.read_result(file, kind="timing", nonce="n", job="j", began=0.0)
            kept.append(result["outcomes"]["w"] if isinstance(result, dict) else {})
        if any("missing" in outcome for outcome in kept):
            return False
        return isolation.shortfall(child.isolation_of(kept), Kind.TIMING) == ""

    return Attack(name=name, attempt=attempt)


def _claim(value: Any) -> dict[str, Any]:
    return {"ms": 1.0, "isolation": value}


ATTACKS = (
    _attack("the second process had none", GOOD, {"ms": 1.0}),
    _attack("the first process had none", {"ms": 1.0}, GOOD),
    _attack("one of five had none", GOOD, GOOD, {"ms": 1.0}, GOOD, GOOD),
    *(_attack(f"one process was open in {name}", GOOD, _claim({**FULL, name: "open"})) for name in FULL),
    *(
        _attack(f"one process says nothing of {name}", GOOD, _claim({key: FULL[key] for key in FULL if key != name}))
        for name in FULL
    ),
    _attack("text instead of words", GOOD, _claim(isolation.MODE)),
    _attack("a list", GOOD, _claim(list(FULL.values()))),
    _attack("a number as a word", GOOD, _claim({**FULL, "network": 0})),
    _attack("true as a word", GOOD, _claim({**FULL, "user": True})),
    _attack("a field that is unknown", GOOD, _claim({**FULL, "trust": "full"})),
    _attack("a word of a megabyte", GOOD, _claim({**FULL, "clock": isolation.CLOCK + " " * 1_000_000})),
    _attack("an empty table", GOOD, _claim({})),
    _attack("null", GOOD, _claim(None)),
)


def member(numbers: random.Random) -> Attack:
    """Let one of some processes lack a field, or have another word."""
    name = numbers.choice(sorted(FULL))
    bad = {**FULL, name: numbers.choice(("", "open", "none ", "Own", "supervisor"))}
    outcomes = [GOOD] * numbers.randrange(1, 6)
    outcomes.insert(numbers.randrange(len(outcomes) + 1), _claim(bad))
    return _attack(f"{name} is {bad[name]!r} in one of {len(outcomes)}", *outcomes)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what any process says, if one says it well."""

    def first_good(results: Any) -> Isolation | None:
        found = [result.get("isolation") for result in results]
        return Isolation(**FULL) if FULL in found else None

    monkeypatch.setattr(child, "isolation_of", first_good)
    monkeypatch.setitem(child.OUTCOME, "isolation", lambda value: True)


CLASS = AttackClass(name="isolation of some processes only", attacks=ATTACKS, member=member, mutant=mutant)
