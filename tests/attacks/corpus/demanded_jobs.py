"""A job that decides is not among the jobs whose results `require` is given."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import required_check

DEMAND = "ci gpu attest"
SUCCEEDED = {"result": "success"}
ALL = dict.fromkeys(DEMAND.split(), SUCCEEDED)


def _attack(name: str, jobs: Mapping[str, object], demand: str | None = DEMAND) -> Attack:
    def attempt(_: Path) -> bool:
        try:
            return not required_check.unmet_jobs(*required_check.demanded_results(json.dumps(jobs), demand))
        except FlashcoreError:
            return False

    return Attack(name=name, attempt=attempt)


def _without(*names: str) -> dict[str, object]:
    return {name: job for name, job in ALL.items() if name not in names}


def member(numbers: random.Random) -> Attack:
    """Leave a demanded job out, or name it differently."""
    gone = numbers.choice(tuple(ALL))
    other = numbers.choice((gone.upper(), f"{gone} ", f" {gone}", f"{gone}-2", f"{gone}\u200b", gone[::-1], f"not-{gone}"))
    jobs = _without(gone) | ({other: SUCCEEDED} if numbers.random() < 0.7 else {})
    return _attack(f"{gone} became {sorted(jobs)}", jobs)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Demand only what is there, as before."""
    unmet = required_check.unmet_jobs
    monkeypatch.setattr(required_check, "unmet_jobs", lambda results, _=(): unmet(results))
    monkeypatch.setattr(required_check, "demanded_results", lambda needs, _: (required_check.job_results(needs), ()))


CLASS = AttackClass(
    name="a job that decides is not needed",
    attacks=(
        _attack("no GPU job", _without("gpu")),
        _attack("no signature", _without("attest")),
        _attack("only ci", _without("gpu", "attest")),
        _attack("a job of another case", _without("gpu") | {"GPU": SUCCEEDED}),
        _attack("a blank after the name", _without("gpu") | {"gpu ": SUCCEEDED}),
        _attack("an invisible character in the name", _without("gpu") | {"g\u200bpu": SUCCEEDED}),
        _attack("a Cyrillic letter in the name", _without("attest") | {"\u0430ttest": SUCCEEDED}),
        _attack("another job in its place", _without("gpu") | {"lint": SUCCEEDED}),
        _attack("nothing is demanded", _without("gpu"), None),
        _attack("an empty demand", _without("gpu"), ""),
        _attack("a blank demand", _without("gpu"), " , "),
        _attack("a demand that is a glob", _without("gpu"), "*"),
        _attack("one job demanded three times", _without("gpu"), "ci ci ci"),
        _attack("a demand that is JSON", _without("gpu"), '["ci"]'),
    ),
    member=member,
    mutant=mutant,
)
