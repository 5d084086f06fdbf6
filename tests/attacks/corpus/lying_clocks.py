"""A candidate that is slower than its clock says. Work and waiting are moved to where the candidate thinks that nobody looks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass, Attempt

from flashcore_ci.worker import clocks
from flashcore_ci.worker.clocks import Burst, Pair

IDLE = 2.0
DELIVERY = 7.0
LAUNCH = 0.25
COUNT = 16
Times = Callable[[int], float]
"""Milliseconds by the number of launches."""


def honest(launches: int) -> float:
    """Return what the launches take."""
    return launches * LAUNCH


def make_attempt(
    outside: Times, inside: Times, *, count: int = COUNT, alone: float | None = None, early: float = 0.0, truth: float = math.inf
) -> Attempt:
    """Return the attempt of a candidate with these times, by the supervisor's clock and by its own.

    It is fooled by agreement on less than the ``truth`` in milliseconds per launch.
    """

    def attempt(_: Path) -> bool:
        pairs = [_pair(outside, inside, count, jitter, early) for jitter in (-0.01, 0.0, 0.01)]
        idle = Burst(launches=0, outside=IDLE, inside=0.01, delivery=DELIVERY)
        lonely = IDLE + 0.02 + (outside(1) if alone is None else alone)
        reported = pairs[1].outside + clocks.unexplained(pairs, idle) + clocks.SHARED_MS / (2 * count)
        return clocks.disagreement(pairs, [lonely] * 3, idle) == "" and reported < truth

    return attempt


def _pair(outside: Times, inside: Times, count: int, jitter: float, early: float) -> Pair:
    return Pair(short=_burst(outside, inside, count, jitter, early), long=_burst(outside, inside, 2 * count, jitter, early))


def _burst(outside: Times, inside: Times, number: int, jitter: float, early: float) -> Burst:
    whole = IDLE + 0.05 + jitter + outside(number)
    return Burst(launches=number, outside=whole, inside=inside(number), delivery=DELIVERY + jitter + early)


def _scaled(factor: float) -> Times:
    return lambda launches: factor * honest(launches)


def _attack(name: str, outside: Times, inside: Times, **changes: Any) -> Attack:
    return Attack(name=name, attempt=make_attempt(outside, inside, **changes))


ATTACKS = (
    _attack("its events report a hundredth", honest, _scaled(0.01)),
    _attack("its events report half", honest, _scaled(0.5)),
    _attack("its events report 97 %", honest, _scaled(0.97)),
    _attack("its events report 103 %", honest, _scaled(1.03)),
    _attack("its events report a constant", honest, lambda launches: 0.01),
    _attack("its events report zero", honest, lambda launches: 0.0),
    _attack("its events report less for more launches", honest, lambda launches: -honest(launches)),
    _attack("its events report infinity", honest, lambda launches: float("inf")),
    _attack("its events report NaN", honest, lambda launches: float("nan")),
    _attack("its events are swapped", honest, lambda launches: -0.5),
    _attack(
        "it waits in short bursts, and its events agree",
        lambda n: honest(n) + 2.0 * (n == COUNT),
        lambda n: n * (LAUNCH - 2.0 / COUNT),
    ),
    _attack("it works for both halves in each burst", lambda n: honest(2 * COUNT) + 0.05 * n, lambda n: 0.05 * n),
    _attack("it works while inputs arrive", _scaled(0.1), _scaled(0.1), early=LAUNCH * COUNT),
    _attack("it works a little while inputs arrive", _scaled(0.9), _scaled(0.9), early=0.2 * LAUNCH * COUNT),
    _attack("it works for one launch while inputs arrive", _scaled(0.01), _scaled(0.01), early=0.2),
    _attack("all bursts take the same", lambda n: honest(2 * COUNT), lambda n: 0.001 * n),
    _attack("more launches take less", lambda n: honest(3 * COUNT - n), lambda n: 0.001 * n),
    _attack("it answers late in short bursts", lambda n: honest(n) + 1.2 * (n == COUNT), lambda n: n * (LAUNCH - 1.2 / COUNT)),
    _attack("work on a stream without events", _scaled(2.0), honest),
    _attack("work of a thread after the last event", lambda n: honest(n) + 0.1 * n, honest),
    _attack("the first launch of a burst works for all", honest, honest, alone=8 * LAUNCH),
    _attack("launches are fast in company only", _scaled(0.2), _scaled(0.2), alone=3 * LAUNCH),
    _attack("a small kernel, off by 3 µs", lambda n: 0.02 * n, lambda n: 0.017 * n),
    _attack("a large kernel, off by 3 %", lambda n: 5.0 * n, lambda n: 4.85 * n, count=2),
)


def member(numbers: random.Random) -> Attack:
    """Draw a lie that is larger than the tolerance."""
    launch, kind = numbers.uniform(0.01, 3.0), numbers.choice(("events", "waits", "early"))
    off = max(3 * clocks.TOLERANCE * launch, 3 * clocks.TOLERANCE_MS)
    if kind == "events":
        wrong = launch + numbers.choice((-1, 1)) * off * numbers.uniform(1.0, 20.0)
        return _attack("events", lambda n: launch * n, lambda n: wrong * n)
    hidden = numbers.uniform(1.2, 10.0) * max(clocks.SHARED_MS, COUNT * max(clocks.TOLERANCE * launch, clocks.TOLERANCE_MS))
    if kind == "waits":
        slope = launch - hidden / COUNT
        return _attack("waits", lambda n: launch * n + hidden * (n == COUNT), lambda n: slope * n, truth=launch)
    return _attack("early", lambda n: hidden + launch * n, lambda n: launch * n, truth=launch + hidden / (2 * COUNT))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe the candidate's clock, and take the slope as it is."""
    monkeypatch.setattr(clocks, "disagreement", lambda pairs, alone, idle: "")
    monkeypatch.setattr(clocks, "unexplained", lambda pairs, idle: -1.0)


CLASS = AttackClass(name="a candidate whose clock lies", attacks=ATTACKS, member=member, mutant=mutant)
