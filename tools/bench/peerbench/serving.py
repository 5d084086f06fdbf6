"""Contenders of the serving rows, on the same numbers: decode over contiguous and paged caches, and ragged prefill."""

from __future__ import annotations

import importlib
import importlib.util
import random
from collections.abc import Callable
from typing import Any

import flashcore
import torch
from torch.nn.attention import sdpa_kernel

from flashcore_ci.worker.driver import Driver
from peerbench import timing
from peerbench.rows import OURS
from peerbench.samples import Measured
from peerbench.serving_rows import CALLS, CONTIGUOUS, ServingRow

Contender = Callable[[], Any]
WARM_UPS = 3


def compare(row: ServingRow, driver: Driver, protocol: timing.Protocol, rng: random.Random) -> Measured:
    """One row, measured."""
    runs, missing = timing.able(contenders(row), row.dtype)
    series = timing.measure(runs, driver, protocol, rng) if runs else {}
    if row.suite == "latency":
        series = {name: one.divided(CALLS) for name, one in series.items()}
    del runs
    torch.cuda.empty_cache()
    return Measured(row=row, series=series, missing=missing)


def contenders(row: ServingRow) -> dict[str, Contender]:
    """Everyone who may take part; whether they can shows when they are called."""
    if row.suite == "varlen":
        return _prefill(row)
    if row.suite == "latency":
        return _graphs(row)
    return _decode(row)


def _prefill(row: ServingRow) -> dict[str, Contender]:
    starts = torch.tensor(row.starts, dtype=torch.int32, device="cuda")
    q, k, v = (_randn(row, row.starts[-1], heads, row.d) for heads in (row.h, row.hkv, row.hkv))
    longest = max(row.lengths)

    def call(module: Any) -> Any:
        return module.flash_attn_varlen_func(q, k, v, starts, starts, longest, longest, causal=row.causal)

    return {OURS: lambda: call(flashcore), "fa3": lambda: _first(call(_fa3()))}


def _decode(row: ServingRow) -> dict[str, Contender]:
    """One new query for each sequence. cuDNN and FlashAttention-2 know neither pages nor lengths: they take part where all are alike."""
    q = _randn(row, row.b, 1, row.h, row.d)
    lengths = torch.tensor(row.lengths, dtype=torch.int32, device="cuda")
    k, v = (_randn(row, row.b, max(row.lengths), row.hkv, row.d) for _ in range(2))

    def cached(module: Any, keys: Any, values: Any, table: Any = None) -> Any:
        return _first(module.flash_attn_with_kvcache(q, keys, values, cache_seqlens=lengths, page_table=table, causal=True))

    def backend(name: str) -> Contender:
        heads_first = [tensor.transpose(1, 2) for tensor in (q, k, v)]

        def run() -> Any:
            with sdpa_kernel(timing.BACKENDS[name]):
                gqa = row.h != row.hkv
                return torch.nn.functional.scaled_dot_product_attention(*heads_first, enable_gqa=gqa).transpose(1, 2)

        return run

    if row.page:
        table = torch.randperm(row.b * row.s // row.page, device="cuda").int().view(row.b, -1)
        pools = [_paged(cache, table, row.page) for cache in (k, v)]
        return {
            OURS: lambda: cached(flashcore, *pools, table),
            "fa3": lambda: cached(_fa3(), *pools, table),
            CONTIGUOUS: lambda: cached(flashcore, k, v),
        }
    alike = {} if row.suite == "ragged" else {name: backend(name) for name in ("cudnn", "fa2")}
    return {OURS: lambda: cached(flashcore, k, v), "fa3": lambda: cached(_fa3(), k, v), **alike}


def _graphs(row: ServingRow) -> dict[str, Contender]:
    """A CUDA graph of as many calls as CALLS, each on a cache of its own, so that all are cold."""
    layers = [_decode(row) for _ in range(CALLS)]
    return {name: _captured([layer[name] for layer in layers]) for name in layers[0]}


def _captured(calls: list[Contender]) -> Contender:
    """What replays the calls and returns the last one's output; captured when it is first called."""
    kept: list[Any] = []

    def replay() -> Any:
        if not kept:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for call in calls[:WARM_UPS]:
                    call()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = [call() for call in calls]
            kept.extend((graph, results))
        kept[0].replay()
        return kept[1][-1]

    return replay


def _paged(cache: Any, table: Any, page: int) -> Any:
    pool = torch.empty((table.numel(), page, *cache.shape[2:]), dtype=cache.dtype, device="cuda")
    pool[table.flatten().long()] = cache.view(-1, page, *cache.shape[2:])
    return pool


def _randn(row: ServingRow, *shape: int) -> Any:
    return torch.randn(shape, device="cuda", dtype=timing.DTYPES[row.dtype])


def _fa3() -> Any:
    return importlib.import_module(timing.FA3)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result
