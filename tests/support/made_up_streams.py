"""Streams of a made-up GPU, for our code inside a candidate's process: what a stream holds waits, and other streams go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.worker import candidate

Action = Callable[[], object]
UNWRITTEN, DONE = -1, 1


class Streams:
    """A queue for the stream of the launches. It does nothing before the device is awaited, if something holds it."""

    def __init__(self) -> None:
        self.out, self.queue, self.waiting = UNWRITTEN, list[Action](), list[Action]()
        self.is_held = False

    def main(self, action: Action) -> None:
        """Submit to the stream of the launches."""
        self.queue.append(action) if self.is_held else action()

    def side(self, action: Action) -> None:
        """Submit to another stream, which waits for nothing."""
        action()

    def later(self, action: Action) -> None:
        """Let a thread submit it when the hold is over."""
        self.waiting.append(action)

    def write(self) -> None:
        """Write the right output."""
        self.out = DONE

    def synchronize(self) -> None:
        """Wait for the device."""
        self.is_held = False
        for action in self.queue + self.waiting:
            action()
        self.queue, self.waiting = [], []

    def hold(self, _: int) -> None:
        self.is_held = True

    def poison(self, outputs: Any, which: int) -> None:
        self.main(lambda: setattr(self, "out", UNWRITTEN))


def launch_held(monkeypatch: pytest.MonkeyPatch, run: Callable[[Streams], object], do: str = "held") -> int:
    """Return the output after a held launch of ``run`` in the process of a candidate."""
    streams = Streams()

    @contextlib.contextmanager
    def on(stream: Any) -> Iterator[None]:
        yield

    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda stop: 1.0)
    cuda = SimpleNamespace(stream=on, Stream=lambda: None, Event=lambda **_: event, _sleep=streams.hold)
    cuda.synchronize = streams.synchronize
    monkeypatch.setitem(__import__("sys").modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(candidate.tensors, "poison", streams.poison)
    process = candidate._Process()
    process._sets = [({}, {})]
    process._module = SimpleNamespace(run=lambda inputs, outputs: run(streams))
    getattr(process, do)({"launches": 1, "graph": False, "poison": 0}, [])
    return streams.out
