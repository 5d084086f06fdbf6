"""Time FlashCore's Python functions without a launch: ``python3 tools/bench/host_cost.py LIBRARY``.

LIBRARY is for example build/decode/libflashcore_decode.so. It reads tensors on the CPU, so that no GPU is needed.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kernel"))

import flashcore
import torch
from flashcore import _launch, _library, _tensors

CALLS, TRIES = 5_000, 9


class NoKernels:
    """Read tensors as the library does, and accept every launch."""

    def __init__(self, library: str) -> None:
        flashcore.load(library)
        (shared, *_) = vars(_library)["_libraries"].values()
        self.flashcore_read = shared.flashcore_read

    def __getattr__(self, name: str) -> Callable[[Any], int]:
        """Return an entry point that does nothing."""
        if not name.startswith("flashcore_"):
            raise AttributeError(name)
        return lambda _arguments: 0


def bind(library: str) -> None:
    """Let the package take CPU tensors and launch nothing."""
    vars(_tensors).update(DEVICE="cpu", _zeros=lambda _device, size: torch.zeros(size, dtype=torch.uint8))
    vars(_launch)["current_stream"] = lambda _device: 0
    vars(_library)["_libraries"].update(dict.fromkeys(("attention", "decode"), NoKernels(library)))


def cases() -> dict[str, Callable[[], Any]]:
    """Return calls as a server makes them, with small caches."""

    def half(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float16)

    q, k, new, pool = half(4, 1, 32, 128), half(4, 64, 8, 128), half(4, 1, 8, 128), half(8, 64, 8, 128)
    lengths, table, starts = (torch.zeros(shape, dtype=torch.int32) for shape in (4, (4, 2), 5))
    ragged = half(64, 8, 128)
    cached = flashcore.flash_attn_with_kvcache
    return {
        "decode": lambda: cached(q, k, k, cache_seqlens=lengths, causal=True),
        "decode, in pages, append": lambda: cached(q, pool, pool, new, new, cache_seqlens=lengths, page_table=table, causal=True),
        "prefill": lambda: flashcore.flash_attn_func(k, k, k, causal=True),
        "ragged prefill": lambda: flashcore.flash_attn_varlen_func(ragged, ragged, ragged, starts, starts, 64, 64, causal=True),
    }


def main(library: str) -> None:
    """Print the least microseconds per call of several tries."""
    bind(library)
    for name, call in cases().items():
        call()
        best = min(timeit.repeat(call, number=CALLS, repeat=TRIES)) / CALLS * 1e6
        print(f"{name:26s} {best:6.2f} us")


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the library
        sys.exit(__doc__)
    main(sys.argv[1])
