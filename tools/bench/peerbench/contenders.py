"""The contenders of each row as calls on the same tensors. They need torch and a GPU."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import flashcore
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from peerbench.rows import CALLS, CONTIGUOUS, FLASHCORE, Row

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
FA3 = "flash_attn_interface"
WARM_UPS = 3

Contender = Callable[[], Any]


def make(row: Row, libraries: Mapping[str, Path]) -> dict[str, Contender]:
    """Return every contender of the row by name. ``libraries`` are builds of FlashCore for the prefill rows."""
    makers = {"": functools.partial(_prefill, libraries=libraries), "varlen": _varlen, "latency": _graphs}
    return makers.get(row.suite, _decode)(row)


def libraries_on(row: Row, libraries: Mapping[str, Path]) -> tuple[list[Any], dict[str, Contender]]:
    """Return new q, k, v (batch, length, heads, elements) and a call of each library on them."""
    tensors = [_randn(row, row.b, row.s, row.h, row.d) for _ in range(3)]
    out = torch.empty_like(tensors[0])
    if len(libraries) == 1:
        flashcore.load(*libraries.values())

    def run(library: Path) -> Any:
        if len(libraries) > 1:
            flashcore.load(library)
        return flashcore.attention(*tensors, causal=row.causal, layout="bshd", out=out)

    return tensors, {name: functools.partial(run, path) for name, path in libraries.items()}


def _prefill(row: Row, libraries: Mapping[str, Path]) -> dict[str, Contender]:
    tensors, runs = libraries_on(row, libraries)
    return {
        **runs,
        "fa3": lambda: _first(_fa3().flash_attn_func(*tensors, causal=row.causal)),
        **_backends(tensors, is_causal=row.causal),
    }


def _varlen(row: Row) -> dict[str, Contender]:
    starts = torch.tensor(row.starts, dtype=torch.int32, device="cuda")
    tensors = [_randn(row, row.starts[-1], heads, row.d) for heads in (row.h, row.hkv, row.hkv)]
    longest = max(row.lengths)

    def call(module: Any) -> Any:
        return _first(module.flash_attn_varlen_func(*tensors, starts, starts, longest, longest, causal=row.causal))

    return {FLASHCORE: lambda: call(flashcore), "fa3": lambda: call(_fa3())}


def _decode(row: Row) -> dict[str, Contender]:
    """One new query per sequence. cuDNN and FlashAttention-2 need equal lengths without pages."""
    q = _randn(row, row.b, 1, row.h, row.d)
    lengths = torch.tensor(row.lengths, dtype=torch.int32, device="cuda")
    k, v = (_randn(row, row.b, max(row.lengths), row.hkv, row.d) for _ in range(2))

    def cached(module: Any, keys: Any, values: Any, table: Any = None) -> Any:
        return _first(module.flash_attn_with_kvcache(q, keys, values, cache_seqlens=lengths, page_table=table, causal=True))

    if row.page:
        table = torch.randperm(row.b * row.s // row.page, device="cuda").int().view(row.b, -1)
        pools = [_paged(cache, table, row.page) for cache in (k, v)]
        return {
            FLASHCORE: lambda: cached(flashcore, *pools, table),
            "fa3": lambda: cached(_fa3(), *pools, table),
            CONTIGUOUS: lambda: cached(flashcore, k, v),
        }
    equal = {} if row.suite == "ragged" else _backends([q, k, v], enable_gqa=row.h != row.hkv)
    return {FLASHCORE: lambda: cached(flashcore, k, v), "fa3": lambda: cached(_fa3(), k, v), **equal}


def _graphs(row: Row) -> dict[str, Contender]:
    """A CUDA graph of CALLS calls, each on its own cold cache."""
    layers = [_decode(row) for _ in range(CALLS)]
    return {name: _captured([layer[name] for layer in layers]) for name in layers[0]}


def _captured(calls: list[Contender]) -> Contender:
    """Return a call that replays a graph of ``calls`` and returns the last output."""

    @functools.cache
    def capture() -> tuple[Any, list[Any]]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls[:WARM_UPS]:
                call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = [call() for call in calls]
        return graph, results

    def replay() -> Any:
        graph, results = capture()
        graph.replay()
        return results[-1]

    return replay


def _backends(tensors: list[Any], **options: bool) -> dict[str, Contender]:
    """Call PyTorch's backends, which take heads first."""
    heads_first = [tensor.transpose(1, 2) for tensor in tensors]

    def run(backend: SDPBackend) -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(*heads_first, **options).transpose(1, 2)

    return {name: functools.partial(run, backend) for name, backend in BACKENDS.items()}


def _paged(cache: Any, table: Any, page: int) -> Any:
    pool = torch.empty((table.numel(), page, *cache.shape[2:]), dtype=cache.dtype, device="cuda")
    pool[table.flatten().long()] = cache.view(-1, page, *cache.shape[2:])
    return pool


def _randn(row: Row, *shape: int) -> Any:
    return torch.randn(shape, device="cuda", dtype=DTYPES[row.dtype])


def _fa3() -> Any:
    return importlib.import_module(FA3)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result
