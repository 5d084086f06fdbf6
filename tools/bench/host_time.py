"""Time calls of decode on the host of a GPU: ``python3 tools/bench/host_time.py [--package fa3]``.

The launches wait behind a pause of the stream, so a call never waits for the GPU. Each package needs a process of its own. The package
``flashcore`` reads the libraries of FLASHCORE_LIBRARY, and ``fa3`` is FlashAttention-3's wheel on the path. ``host_cost.py`` needs no GPU.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kernel"))

BURSTS, CALLS, PAUSE = 12, 200, 20_000_000  # the pause is in cycles of the GPU: 10 ms
BATCH, HEADS, KV_HEADS, D, CAPACITY, PAGE = 4, 32, 8, 128, 1024, 64
Call = Callable[[], Any]


def time_call(call: Call, torch: Any) -> dict[str, float]:
    """Return microseconds: the least and the median of single calls, and the mean of the best burst."""
    singles, bursts = [], []
    for _ in range(3):
        call()
    for _ in range(BURSTS):
        wait_behind_pause(torch)
        singles += time_singly(call)
        wait_behind_pause(torch)
        bursts.append(time_together(call))
    torch.cuda.synchronize()
    found = {"least": min(singles), "median": statistics.median(singles), "burst": min(bursts)}
    return {name: round(value / 1000, 2) for name, value in found.items()}


def wait_behind_pause(torch: Any) -> None:
    """Let the launches that follow wait on the GPU."""
    torch.cuda.synchronize()
    torch.cuda._sleep(PAUSE)  # noqa: SLF001 - PyTorch has no other pause


def time_singly(call: Call) -> list[int]:
    """Return the nanoseconds of each call."""
    clock, times = time.perf_counter_ns, []
    for _ in range(CALLS):
        begin = clock()
        call()
        times.append(clock() - begin)
    return times


def time_together(call: Call) -> float:
    """Return the mean nanoseconds of a call."""
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - begin) / CALLS


class Inputs:
    """A step of decode, over a contiguous cache and over pages."""

    def __init__(self, torch: Any, device: str = "cuda") -> None:
        def half(*shape: int) -> Any:
            return torch.randn(shape, device=device).half()

        self.q, self.k, self.v = half(BATCH, 1, HEADS, D), half(BATCH, CAPACITY, KV_HEADS, D), half(BATCH, CAPACITY, KV_HEADS, D)
        self.new = half(BATCH, 1, KV_HEADS, D)
        pages = BATCH * CAPACITY // PAGE
        self.pool = self.k.view(pages, PAGE, KV_HEADS, D)
        self.lengths = torch.full((BATCH,), CAPACITY - 1, dtype=torch.int32, device=device)
        self.table = torch.arange(pages, dtype=torch.int32, device=device).view(BATCH, -1)
        self.out = torch.empty_like(self.q)


def list_direct(cached: Any, i: Inputs) -> Iterator[tuple[str, Call]]:
    """Yield calls of the function that both packages have."""
    yield "direct", lambda: cached(i.q, i.k, i.v, cache_seqlens=i.lengths, causal=True)
    yield "direct, pages", lambda: cached(i.q, i.pool, i.pool, cache_seqlens=i.lengths, page_table=i.table, causal=True)
    yield (
        "direct, pages, append",
        lambda: cached(i.q, i.pool, i.pool, i.new, i.new, cache_seqlens=i.lengths, page_table=i.table, causal=True),
    )


def list_flash3(torch: Any, i: Inputs) -> Iterator[tuple[str, Call]]:
    """Yield calls of FlashAttention-3's operator, with the arguments that its own function gives it."""
    forward = torch.ops.flash_attn_3.fwd.default
    before = (i.q, i.k, i.v, *[None] * 8, i.lengths, *[None] * 11, D**-0.5, True, -1, -1, 0, 0.0, True, None, 1, None, 0)
    yield "flash_attn_3::fwd", lambda: forward(*before)
    yield "flash_attn_3::fwd by name", lambda: forward(i.q, i.k, i.v, seqused_k=i.lengths, is_causal=True, num_splits=1)


def list_operators(torch: Any, i: Inputs) -> Iterator[tuple[str, Call]]:
    """Yield calls of FlashCore's operators."""
    forward, write = torch.ops.flashcore.fwd.default, torch.ops.flashcore.fwd_out.default
    rest = (None, None, None, i.lengths, None, None, None, None, None, None, None, True, 0)
    yield "flashcore::fwd", lambda: forward(i.q, i.k, i.v, *rest)
    yield "flashcore::fwd by name", lambda: forward(i.q, i.k, i.v, seqused_k=i.lengths, causal=True, num_splits=0)
    yield "flashcore::fwd_out", lambda: write(i.out, None, i.q, i.k, i.v, *rest)


def list_calls(package: str, torch: Any, i: Inputs) -> Iterator[tuple[str, Call]]:
    """Yield all calls of a package."""
    if package == "fa3":
        yield from list_direct(importlib.import_module("flash_attn_interface").flash_attn_with_kvcache, i)
    else:
        yield from list_direct(importlib.import_module("flashcore").flash_attn_with_kvcache, i)
        importlib.import_module("flashcore.fa3")
        yield from list_operators(torch, i)
    yield from list_flash3(torch, i)


def main() -> None:
    """Print a line of JSON for each call: microseconds under ``no_grad`` and under ``inference_mode``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", default="flashcore", choices=("flashcore", "fa3"))
    package = parser.parse_args().package
    torch = importlib.import_module("torch")
    inputs = Inputs(torch)
    gc.disable()
    for mode in ("no_grad", "inference_mode"):
        with getattr(torch, mode)():
            for name, call in list_calls(package, torch, inputs):
                print(json.dumps({"package": package, "mode": mode, "call": name, **time_call(call, torch)}), flush=True)


if __name__ == "__main__":
    main()
