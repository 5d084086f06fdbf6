"""One of several GPUs fails, and the others make the result look clean."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.worker import ranks
from flashcore_ci.worker.job import Job, Result, Work

CLEAN: dict[str, Any] = {
    "diff/max": 0.0,
    "error/ratio": 0.5,
    "finite/bad-values": 0,
    "repeat/differing-runs": 0,
    "gpus/differing": 0,
    "gpus/one-differing": 0,
    "link/traffic": 1.0,
}
BAD: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(CLEAN, (5.0, "nan", "inf")),
    "link/traffic": (0.0, 0.5, 1.5, 3.0, "nan", "inf"),
}


def _outcome(**readings: Any) -> dict[str, Any]:
    return {"seconds": 1.0, "readings": {**CLEAN, **readings}, "notes": []}


def _missing(code: str) -> dict[str, Any]:
    return {"seconds": 1.0, "missing": {"code": code, "message": "it failed"}}


def _attack(name: str, bad: Any, *, code: int | None = 0, finished: bool = True, size: int = 2) -> Attack:
    """Let the last of ``size`` ranks write this outcome (None: none), and end with this code."""

    def attempt(folder: Path) -> bool:
        for rank in range(size):
            last = rank == size - 1
            outcome = bad if last else _outcome()
            content = {"environment": {}, "started": None, "finished": finished or not last}
            content["outcomes"] = {} if outcome is None else {"work": outcome}
            content["started"] = "work" if last and not finished else None
            (folder / f"rank-{rank}.json").write_text(json.dumps(content), encoding="utf-8")
        work = Work(id="work", subject="s", params={}, seed=0)
        options = {"gpus": size, "rank_seconds": -1.0 if code is None else 60.0}
        job = Job(
            kind="correctness", nonce="n", digest="d", root=folder, folder=folder, subjects=(), workloads=(work,), options=options
        )
        result = Result(job, folder / "result.json")
        watch = ranks._Watch(job, result, [folder / f"rank-{rank}.json" for rank in range(size)])
        codes = [0] * (size - 1) + [code]
        try:
            watch.follow([SimpleNamespace(exitcode=each) for each in codes])
        except RuntimeError:
            return False
        return result.content["outcomes"].get("work", {}).get("readings") == CLEAN

    return Attack(name=name, attempt=attempt)


ATTACKS = (
    *(_attack(f"{name} is {bad}", _outcome(**{name: bad})) for name, values in BAD.items() for bad in values),
    *(
        _attack(f"it says {code}", _missing(code))
        for code in ("raised", "crash", "out-of-memory", "output-changed", "ranks-disagree")
    ),
    _attack("it measures nothing", None),
    _attack("it lacks one reading", {**_outcome(), "readings": {k: v for k, v in CLEAN.items() if k != "link/traffic"}}),
    _attack("it has no readings", {"seconds": 1.0, "notes": []}),
    _attack("it was killed", None, code=-9, finished=False),
    _attack("it ended early and says 0", None, finished=False),
    _attack("it ended with an error", None, code=1, finished=False),
    _attack("it hangs", None, code=None, finished=False),
    _attack("the last of eight is wrong", _outcome(**{"diff/max": 9.0}), size=8),
)


def _member(numbers: random.Random) -> Attack:
    name = numbers.choice(sorted(CLEAN))
    bad = numbers.choice([numbers.uniform(1.01, 1e6), *BAD[name]])
    size = numbers.randint(2, 8)
    return _attack(f"{name} is {bad} on the last of {size}", _outcome(**{name: bad}), size=size)


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe the first rank alone."""
    read = ranks._read
    monkeypatch.setattr(ranks, "_read", lambda file: read(file.with_name("rank-0.json")))
    monkeypatch.setattr(ranks, "_died", lambda *_: None)
    monkeypatch.setattr(ranks._Watch, "_hung", lambda *_: None)
    keep = ranks._Watch._keep

    def keep_and_stop(watch: Any, seen: Any) -> Any:
        keep(watch, seen)
        return "work", {}

    monkeypatch.setattr(ranks._Watch, "_keep", keep_and_stop)


CLASS = AttackClass(name="ranks hidden", attacks=ATTACKS, member=_member, mutant=_mutant)
