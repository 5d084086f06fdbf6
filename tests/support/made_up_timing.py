"""Run the timing worker's job file on tensors of the CPU. Only kernels and starts of graphs move the clock, which is also the GPU's.

``python made_up_timing.py JOB RESULT``, with PyTorch. The job's parameters say how long a launch takes and what is wrong with it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from flashcore_ci.worker import __main__ as worker
from flashcore_ci.worker import launchers, timing, unjoined

START_US = 13.0
NOW = [0.0]
SLOW = [0.0]
"""Microseconds by which the shorter graph starts later, and longer."""


def spend(microseconds: float) -> None:
    """Let the GPU work."""
    NOW[0] += microseconds


class Event:
    """An event of the made-up stream."""

    def __init__(self, **_: Any) -> None:
        self.at = 0.0

    def record(self, *_: Any) -> None:
        self.at = NOW[0]

    def elapsed_time(self, other: Event) -> float:
        return (other.at - self.at) / 1e3

    def synchronize(self) -> None:
        pass


class Graph:
    """Launches that are repeated."""

    shortest: int = 1 << 30

    def __init__(self, action: Any, sets: Any) -> None:
        self.action, self.sets = action, list(sets)

    def replay(self) -> None:
        spend(START_US + (SLOW[0] if len(self.sets) == Graph.shortest else 0.0))
        for each in self.sets:
            self.action(each)


def capture(action: Any, sets: Any) -> Graph:
    """Remember what a CUDA graph would."""
    made = Graph(action, sets)
    if len(made.sets) < min(launchers.WARM_GRAPHS):
        Graph.shortest = min(Graph.shortest, len(made.sets))
    return made


class MadeUpDriver:
    """Clocks, and an L2 in which nothing persists."""

    def tick(self) -> float:
        return NOW[0]

    def megahertz(self, before: float, after: float) -> float:
        return 1980.0 if after >= before else 0.0

    def persisting_bytes(self) -> int:
        return 0


def install() -> None:
    """Put the made-up GPU in the place of torch's."""
    device = SimpleNamespace(total_memory=1 << 40, L2_cache_size=1 << 12, multi_processor_count=132, name="made up")
    stream = SimpleNamespace(cuda_stream=0)
    nothing = {name: lambda *_: None for name in ("synchronize", "empty_cache", "init")}
    made_up = {
        **nothing,
        "Event": Event,
        "Stream": lambda *_: stream,
        "stream": lambda _: contextlib.nullcontext(),
        "current_stream": lambda *_: stream,
        "memory_reserved": lambda *_: 0,
        "get_device_properties": lambda *_: device,
        "_sleep": lambda cycles: spend(cycles / 1980.0),
    }
    for name, value in made_up.items():
        setattr(torch.cuda, name, value)
    for name in ("zeros", "empty"):
        real = getattr(torch, name)
        setattr(torch, name, lambda *shape, real=real, device=None, **options: real(*shape, **options))
    clock = SimpleNamespace(perf_counter=lambda: NOW[0] / 1e6, sleep=time.sleep, monotonic=time.monotonic)
    for module, names in {
        launchers: {"_capture": capture, "time": clock},
        timing: {"Driver": MadeUpDriver, "start_torch": lambda: None, "time": clock},
        unjoined: {"observe": lambda *_: [], "describe": lambda *_: ""},
    }.items():
        for name, value in names.items():
            setattr(module, name, value)


class Kernel:
    """What the subject launches: ``x`` doubled, or what is ``kept`` of the launch before at these addresses."""

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}

    def __call__(self, x: Any, out: Any, *, microseconds: float, keeps: bool) -> None:
        spend(microseconds)
        new = x * 2.0
        out.copy_(self.kept.get(x.data_ptr(), new) if keeps else new)
        self.kept[x.data_ptr()] = new


if __name__ == "__main__":
    sys.modules["made_up_timing"] = sys.modules["__main__"]  # the subject imports it
    sys.path.insert(0, str(Path(__file__).parent))
    install()
    sys.exit(worker.main(sys.argv[1:]))
