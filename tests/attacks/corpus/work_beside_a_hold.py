"""A candidate whose work does not wait for the stream of its launches, in its own process. Its size does not matter there."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from made_up_streams import DONE, Streams, launch_held

from flashcore_ci.worker import candidate

Work = Callable[[Streams], object]


def _attack(name: str, work: Work) -> Attack:
    def attempt(_: Path) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            return launch_held(patch, work) == DONE

    return Attack(name=name, attempt=attempt)


def _first(streams: Streams) -> None:
    streams.side(streams.write)
    streams.main(lambda: None)


def _repeated(count: int) -> Work:
    return lambda streams: [streams.side(streams.write) for _ in range(count)]


def member(numbers: random.Random) -> Attack:
    """Launch some kernels aside, and others that write nothing."""
    aside = [True, *(numbers.random() < 0.5 for _ in range(numbers.randint(0, 20)))]
    numbers.shuffle(aside)

    def work(streams: Streams) -> None:
        for is_aside in aside:
            streams.side(streams.write) if is_aside else streams.main(lambda: None)

    return _attack(f"{sum(aside)} kernels aside, {len(aside) - sum(aside)} others", work)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch as in a burst, as before."""
    monkeypatch.setattr(candidate._Process, "held", candidate._Process.launch)


CLASS = AttackClass(
    name="work that does not wait for a held stream",
    attacks=(
        _attack("all on another stream", _repeated(1)),
        _attack("eight tiny kernels on another stream", _repeated(8)),
        _attack("on another stream, and something on its own", _first),
    ),
    member=member,
    mutant=mutant,
)
