"""Packed sequences of different lengths for the subject of attention.

Lengths do not depend on the seed. tests/kernel/gpu/test_varlen.py tests rows between sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ENTRY = "flashcore_attention_varlen_prepare"
CUMULATIVE = "cu_seqlens_q"  # with `packed` a name that attention.py of other commits reads, in a comparison
EDGES = ((0, 5), (1, 1), (17, 0), (200, 333), (64, 64), (193, 129), (1, 1000), (300, 3), (0, 0), (130, 2500))


def _make_equal(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Repeat (sq, sk). These tensors keep their batch dimension."""
    return [(p["sq"], p["sk"])] * p["b"]


def _make_ragged(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Space lengths log-uniformly from sk/128 to sk, unordered, with queries in proportion."""
    shares = [128.0 ** (((5 * i) % p["b"] + 0.5) / p["b"] - 1.0) for i in range(p["b"])]
    return [(round(p["sq"] * share), round(p["sk"] * share)) for share in shares]


def _make_edges(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Cycle through EDGES, up to sq and sk."""
    return [(min(p["sq"], sq), min(p["sk"], sk)) for sq, sk in (EDGES[i % len(EDGES)] for i in range(p["b"]))]


LENGTHS: dict[str, Callable[[Mapping[str, Any]], list[tuple[int, int]]]] = {
    "equal": _make_equal,
    "ragged": _make_ragged,
    "edges": _make_edges,
}


def packed(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of one sequence with all rows, unless the lengths are equal."""
    if p["lengths"] == "equal":
        return dict(p)
    queries, keys = (sum(column) for column in zip((0, 0), *LENGTHS[p["lengths"]](p), strict=True))
    return {**p, "b": 1, "sq": queries, "sk": keys}


def inputs(p: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the batch dimension, and add the cumulative lengths."""
    import torch

    lengths = LENGTHS[p["lengths"]](p)
    pairs = torch.tensor([(0, 0), *lengths], dtype=torch.int32, device=batch["q"].device)
    cumulative = pairs.cumsum(0, dtype=torch.int32).T.contiguous()
    rows = {name: batch[name][0] for name in ("q", "k", "v")}
    return {**batch, **rows, CUMULATIVE: cumulative[0].clone(), "cu_seqlens_k": cumulative[1].clone()}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out`` like the queries and ``lse`` (heads, queries)."""
    import torch

    q = inputs["q"]
    lse = torch.empty((q.shape[1], q.shape[0]), dtype=torch.float32, device=q.device)
    return {"out": torch.empty(q.shape, dtype=q.dtype, device=q.device), "lse": lse}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    import flashcore

    if inputs["flash"]:
        q, k, v = (inputs[name] for name in ("q", "k", "v"))
        results = flashcore.flash_attn_varlen_func(
            q, k, v, inputs[CUMULATIVE], inputs["cu_seqlens_k"], len(q), len(k), causal=inputs["causal"], return_attn_probs=True
        )
        for name, result in zip(("out", "lse"), results, strict=True):
            outputs[name].copy_(result)
        return
    flashcore.attention_varlen(
        inputs["q"], inputs["k"], inputs["v"], inputs[CUMULATIVE], inputs["cu_seqlens_k"],
        causal=inputs["causal"], out=outputs["out"], lse=outputs["lse"], max_ctas=inputs["max_ctas"],
    )  # fmt: skip


def reference(inputs: Mapping[str, Any], compute: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Compute each sequence with the batched reference and concatenate the results."""
    import torch

    q, k, v = (inputs[name] for name in ("q", "k", "v"))
    ends = zip(inputs[CUMULATIVE].tolist(), inputs["cu_seqlens_k"].tolist(), strict=True)
    results, (row, key) = [], next(ends)
    for last_row, last_key in ends:
        part = {"q": q[None, row:last_row], "k": k[None, key:last_key], "v": v[None, key:last_key]}
        results.append(compute({**part, "causal": inputs["causal"], "layout": "bshd"}))
        row, key = last_row, last_key
    return {
        "out": torch.cat([result["out"][0] for result in results]),
        "lse": torch.cat([result["lse"][0] for result in results], dim=1),
    }
