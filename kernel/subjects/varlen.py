"""Sequences of different lengths for the subject of attention: their rows lie one behind the other, q (rows, heads, d).

Lengths depend on the parameters alone, not on the seed. Whether neighbours that hold NaN get in, a comparison with PyTorch cannot ask
of rows that all count: tests/gpu/test_varlen.py does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ENTRY = "flashcore_attention_varlen_prepare"
CUMULATIVE = "cu_seqlens_q"
EDGES = ((0, 5), (1, 1), (17, 0), (200, 333), (64, 64), (193, 129), (1, 1000), (300, 3), (0, 0), (130, 2500))


def _equal(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """No ragged batch at all: the others' tensors have a batch dimension."""
    return [(p["sq"], p["sk"])] * p["b"]


def _ragged(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Log-uniform from sk/128 to sk, in no order, queries in proportion: one long sequence weighs as much as many short ones."""
    shares = [128.0 ** (((5 * i) % p["b"] + 0.5) / p["b"] - 1.0) for i in range(p["b"])]
    return [(round(p["sq"] * share), round(p["sk"] * share)) for share in shares]


def _edges(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """None, one, just beside a tile, more queries than keys; sq and sk are the most."""
    return [(min(p["sq"], sq), min(p["sk"], sk)) for sq, sk in (EDGES[i % len(EDGES)] for i in range(p["b"]))]


LENGTHS: dict[str, Callable[[Mapping[str, Any]], list[tuple[int, int]]]] = {
    "equal": _equal,
    "ragged": _ragged,
    "edges": _edges,
}


def packed(p: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of one sequence as long as all of them, if the batch is ragged."""
    lengths = LENGTHS[p["lengths"]](p)
    return (
        dict(p)
        if p["lengths"] == "equal"
        else {**p, "b": 1, "sq": sum(sq for sq, _ in lengths), "sk": sum(sk for _, sk in lengths)}
    )


def inputs(p: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors without their batch, which is one, and the lengths as FlashAttention has them."""
    import torch

    lengths = LENGTHS[p["lengths"]](p)
    pairs = torch.tensor([(0, 0), *lengths], dtype=torch.int32, device=drawn["q"].device)
    cumulative = pairs.cumsum(0, dtype=torch.int32).T.contiguous()
    rows = {name: drawn[name][0] for name in ("q", "k", "v")}
    return {**drawn, **rows, CUMULATIVE: cumulative[0].clone(), "cu_seqlens_k": cumulative[1].clone()}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Uninitialised results: ``out`` like the queries, ``lse`` of shape (heads, queries)."""
    import torch

    q = inputs["q"]
    lse = torch.empty((q.shape[1], q.shape[0]), dtype=torch.float32, device=q.device)
    return {"out": torch.empty(q.shape, dtype=q.dtype, device=q.device), "lse": lse}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """One launch on the current stream."""
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


def reference(inputs: Mapping[str, Any], alone: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """What the reference of one sequence ``alone`` gives, for each of them."""
    import torch

    q, k, v = (inputs[name] for name in ("q", "k", "v"))
    ends = zip(inputs[CUMULATIVE].tolist(), inputs["cu_seqlens_k"].tolist(), strict=True)
    results, (row, key) = [], next(ends)
    for last_row, last_key in ends:
        part = {"q": q[None, row:last_row], "k": k[None, key:last_key], "v": v[None, key:last_key]}
        results.append(alone({**part, "causal": inputs["causal"], "layout": "bshd"}))
        row, key = last_row, last_key
    return {
        "out": torch.cat([result["out"][0] for result in results]),
        "lse": torch.cat([result["lse"][0] for result in results], dim=1),
    }
