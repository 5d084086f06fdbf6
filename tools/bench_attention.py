"""Time FlashCore's attention beside PyTorch's backends on this GPU: one process, random order, cold L2, settled clock.

usage: python3 tools/bench_attention.py [--library FILE ...] [--case B,H,S,D,MASK,DTYPE ...] [--seconds N] [--out FILE]

Every contender of a case runs on the same tensors. A round times each contender once, in random order, with the L2 cache
overwritten before each; the first half of the rounds only warms the GPU to its settled clock and is not counted. Several
libraries can be compared in one run, and FlashAttention-3 takes part where it is installed. Only the ratios within one run carry over to another machine.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "kernel"))

import flashcore  # noqa: E402

FLUSH_BYTES = 256 << 20
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
CASES = [
    *(f"16,16,2048,64,{mask},{dtype}" for mask in ("full", "causal") for dtype in ("fp16", "bf16")),
    *(f"16,16,2048,128,{mask},{dtype}" for mask in ("full", "causal") for dtype in ("fp16", "bf16")),
    *(f"{b},16,{s},{d},{mask},fp16" for b, s in ((64, 512), (4, 8192)) for d in (64, 128) for mask in ("full", "causal")),
]


def contenders(case: str, libraries: list[pathlib.Path]) -> tuple[dict[str, Callable[[], Any]], float]:
    """What runs in a case, and its floating-point operations."""
    b, h, s, d = (int(part) for part in case.split(",")[:4])
    mask, dtype = case.split(",")[4:]
    causal = mask == "causal"
    q, k, v = (torch.randn((b, h, s, d), device="cuda", dtype=DTYPES[dtype]) for _ in range(3))
    out = torch.empty_like(q)

    def ours(library: pathlib.Path) -> Callable[[], Any]:
        def run() -> None:
            flashcore.load(library)
            flashcore.attention(q, k, v, causal=causal, layout="bhsd", out=out)

        return run

    def torch_backend(backend: SDPBackend) -> Callable[[], Any]:
        def run() -> None:
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    pairs = s * (s + 1) // 2 if causal else s * s
    runs: dict[str, Callable[[], Any]] = {library.parent.name: ours(library) for library in libraries}
    runs["fa2"] = torch_backend(SDPBackend.FLASH_ATTENTION)
    runs["cudnn"] = torch_backend(SDPBackend.CUDNN_ATTENTION)
    if importlib.util.find_spec("flash_attn_interface"):
        rows = [tensor.transpose(1, 2) for tensor in (q, k, v)]
        runs["fa3"] = lambda: importlib.import_module("flash_attn_interface").flash_attn_func(*rows, causal=causal)
    return runs, 4.0 * b * h * d * pairs


def measure(runs: Mapping[str, Callable[[], Any]], seconds: float, rng: random.Random) -> dict[str, float]:
    """Median milliseconds of the second half of the rounds."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    names = list(runs)
    samples: list[tuple[float, str, Any, Any]] = []
    for run in runs.values():
        run()
    torch.cuda.synchronize()
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        rng.shuffle(names)
        for name in names:
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            start.record()
            runs[name]()
            stop.record()
            samples.append((time.monotonic() - begin, name, start, stop))
        torch.cuda.synchronize()
    settled = [sample for sample in samples if sample[0] > seconds / 2]
    return {name: statistics.median(start.elapsed_time(stop) for _, who, start, stop in settled if who == name) for name in runs}


def main() -> None:
    """Time every case and print one line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--case", action="append")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    rng = random.Random(1)  # noqa: S311  an order, not a secret
    results = {}
    for case in options.case or CASES:
        runs, flops = contenders(case, options.library)
        times = measure(runs, options.seconds, rng)
        results[case] = {name: {"ms": ms, "tflops": flops / ms / 1e9} for name, ms in times.items()}
        cells = "  ".join(f"{name} {ms:7.4f} ms {flops / ms / 1e9:5.0f}" for name, ms in times.items())
        first = next(iter(times))
        ratios = "  ".join(f"x{name} {ms / times[first]:.3f}" for name, ms in times.items() if name != first)
        print(f"{case:28s} {cells}  | {ratios}", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"device": torch.cuda.get_device_name(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
