"""Work that the stream of a launch does not wait for, so that its time is not the launch's. The GPU is made up."""

from __future__ import annotations

import random

import pytest
from attacking import Attack, AttackClass
from made_up_gpu import MadeUpGpu, Work, find

from flashcore_ci.worker import unjoined


def aside(gpu: MadeUpGpu) -> None:
    """Do all on a stream that waits for nothing."""
    gpu.kernel(0.1, "side")


def tiny_kernels_aside(gpu: MadeUpGpu) -> None:
    """Launch eight short kernels, which are over before the host has launched the next."""
    for _ in range(8):
        gpu.kernel(0.002, "side")


def forked(gpu: MadeUpGpu) -> None:
    """Fork, and do not join."""
    gpu.wait("side", "main")
    gpu.kernel(0.1, "side")


def half(gpu: MadeUpGpu) -> None:
    """Do half on each stream."""
    gpu.wait("side", "main")
    gpu.kernel(0.05, "side")
    gpu.kernel(0.05)


def lingering(gpu: MadeUpGpu) -> None:
    """Go on when the launch is done."""
    gpu.kernel(0.1)
    gpu.wait("side", "main")
    gpu.kernel(0.03, "side")


def lingering_long(gpu: MadeUpGpu) -> None:
    """Go on with a fifth of a large launch."""
    gpu.kernel(2.0)
    gpu.wait("side", "main")
    gpu.kernel(0.4, "side")


def many_streams(gpu: MadeUpGpu) -> None:
    """Fork to eight streams, and join one of them."""
    for number in range(8):
        gpu.wait(f"side {number}", "main")
        gpu.kernel(0.02, f"side {number}")
    gpu.wait("main", "side 7")


def early(gpu: MadeUpGpu) -> None:
    """Work on a stream that does not wait for the launch's turn, and join it."""
    gpu.kernel(0.06, "side")
    gpu.wait("main", "side")
    gpu.kernel(0.06)


def joined_by_the_next(gpu: MadeUpGpu) -> None:
    """Let the next launch wait for the work of this one."""
    gpu.wait("main", "side")
    gpu.kernel(0.02)
    gpu.wait("side", "main")
    gpu.kernel(0.1, "side")


def after_a_host_function(gpu: MadeUpGpu) -> None:
    """Let a host function wait before the work."""
    gpu.kernel(0.02)
    gpu.wait("side", "main")
    gpu.spin(1.0, "side")
    gpu.kernel(0.1, "side")


def from_a_thread(gpu: MadeUpGpu) -> None:
    """Let a thread launch it a little later."""
    gpu.kernel(0.02)
    gpu.kernel(0.1, "side", later=0.1)


def synchronizes_first(gpu: MadeUpGpu) -> None:
    """Wait for the device, so that the host is never ahead, and fork."""
    gpu.synchronize()
    gpu.kernel(0.02)
    gpu.wait("side", "main")
    gpu.kernel(0.5, "side")


def synchronizes_its_own_stream(gpu: MadeUpGpu) -> None:
    """Wait for its own stream only, so that what a launch leaves on another one is short."""
    gpu.mark("mine")
    while not gpu.has_passed("mine"):
        pass
    gpu.wait("side", "main")
    gpu.kernel(0.08, "side")


def honest(gpu: MadeUpGpu) -> None:
    """Work, and exchange the events."""
    gpu.kernel(0.2)


def _attack(name: str, work: Work, ms: float | None = None) -> Attack:
    return Attack(name=name, attempt=lambda folder: not find(work, ms))


WORKS = (
    aside,
    tiny_kernels_aside,
    forked,
    half,
    lingering,
    lingering_long,
    many_streams,
    early,
    joined_by_the_next,
    after_a_host_function,
    from_a_thread,
    synchronizes_first,
    synchronizes_its_own_stream,
)
ATTACKS = (
    *(_attack(work.__name__.replace("_", " "), work) for work in WORKS),
    _attack("the events of torch report half", honest, 0.1),
    _attack("the events of torch report zero", honest, 0.0),
    _attack("the events of torch report NaN", honest, float("nan")),
)


def member(numbers: random.Random) -> Attack:
    """Draw work aside, after or before the launch."""
    main, other, streams = numbers.uniform(0.0, 0.5), numbers.uniform(0.02, 1.0), numbers.randint(1, 6)
    kind = numbers.choice(("aside", "forked", "after", "early"))

    def work(gpu: MadeUpGpu) -> None:
        for number in range(streams):
            if kind == "forked":
                gpu.wait(f"side {number}", "main")
            if kind != "after":
                gpu.kernel(max(other, main) / streams, f"side {number}")
            if kind == "early":
                gpu.wait("main", f"side {number}")
        gpu.kernel(main)
        if kind == "after":
            gpu.wait("side 0", "main")
            gpu.kernel(other, "side 0")

    return _attack(f"{kind}: {main} and {other} ms on {streams} streams", work)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look at other streams."""
    monkeypatch.setattr(unjoined, "describe", lambda *_: "")


CLASS = AttackClass(name="work that its stream does not wait for", attacks=ATTACKS, member=member, mutant=mutant)
