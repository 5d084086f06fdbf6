"""Packed sequences of different lengths for the subject of attention, with keys in packed rows or in pages.

Lengths do not depend on the seed. Pages are in random order. Keys past a length are NaN, and their entries of the page table are wrong. tests/kernel/gpu/test_varlen.py tests rows between sequences.

With ``used`` some queries are unused. With ``leftpad`` each sequence has a cache, and keys before its own. Both hold NaN.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ENTRY = "flashcore_attention_prepare"
PAGED_HEAD_DIMS, WARPGROUP_ROWS, MULTIPROCESSORS = (64, 128, 256), 64, 132
MIN_SERVING = 3  # sequences: two chunks and a single query
MAX_DECODED = 16  # queries of a sequence that flash_attn_with_kvcache gives to the library of decode, over pages
WRONG_ENTRIES = (-1, 2**31 - 1, -(2**31), 10**6)
PADDING = (0, 5, 64, 129)
CUMULATIVE = "cu_seqlens_q"  # with `packed` a name that attention.py of other commits reads, in a comparison
EDGES = ((0, 5), (1, 1), (17, 0), (200, 333), (64, 64), (193, 129), (1, 1000), (300, 3), (0, 0), (130, 2500))


def _make_equal(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Repeat (sq, sk). These tensors keep their batch dimension."""
    return [(p["sq"], p["sk"])] * p["b"]


def _make_ragged(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Space lengths log-uniformly from sk/128 to sk, unordered, with queries in proportion."""
    shares = [128.0 ** (((5 * i) % p["b"] + 0.5) / p["b"] - 1.0) for i in range(p["b"])]
    return [(round(p["sq"] * share), round(p["sk"] * share)) for share in shares]


def _make_serving(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Make two chunks of sq queries, without and with a context, and single queries over sk/64 to sk keys."""
    shares = [64.0 ** (((5 * i) % (p["b"] - 2) + 0.5) / (p["b"] - 2) - 1.0) for i in range(p["b"] - 2)]
    return [(p["sq"], p["sq"]), (p["sq"], p["sk"]), *((1, round(p["sk"] * share)) for share in shares)]


def _make_chunks(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Make the same with one query more than decode takes in place of single ones."""
    return [(max(sq, MAX_DECODED + 1), sk) for sq, sk in _make_serving(p)]


def _make_edges(p: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Cycle through EDGES, up to sq and sk."""
    return [(min(p["sq"], sq), min(p["sk"], sk)) for sq, sk in (EDGES[i % len(EDGES)] for i in range(p["b"]))]


LENGTHS: dict[str, Callable[[Mapping[str, Any]], list[tuple[int, int]]]] = {
    "equal": _make_equal,
    "ragged": _make_ragged,
    "edges": _make_edges,
    "serving": _make_serving,
    "chunks": _make_chunks,
}


def check(p: Mapping[str, Any], paged_head_dims: Sequence[int]) -> None:
    """ValueError names the parameter that does not fit the lengths."""
    if p["lengths"] != "equal" and p["layout"] != "bshd":
        raise ValueError(f"layout: must be bshd where lengths are {p['lengths']}, is {p['layout']}")
    if p["lengths"] in {"serving", "chunks"} and p["b"] < MIN_SERVING:
        raise ValueError(f"b: must be at least {MIN_SERVING} where lengths are {p['lengths']}, is {p['b']}")
    if p["flash"] and p["page"] and any(sq <= MAX_DECODED for sq, _ in LENGTHS[p["lengths"]](p)):
        raise ValueError(
            f"lengths: with flash and page up to {MAX_DECODED} queries need the library of decode, are {p['lengths']}"
        )
    if (p["used"] or p["leftpad"]) and (p["lengths"] == "equal" or (p["leftpad"] and (p["page"] or p["used"] or not p["flash"]))):
        raise ValueError("used, leftpad: need unequal lengths, and leftpad needs flash and defaults of page and used")
    if p["page"] and (p["lengths"] == "equal" or p["d"] not in paged_head_dims):
        raise ValueError(f"page: needs unequal lengths and d of {', '.join(map(str, paged_head_dims))}, is {p['page']}")


def drop_unused(p: Mapping[str, Any], lengths: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the lengths without unused queries."""
    if not p["used"]:
        return list(lengths)
    return [((sq, 0, sq // 2, max(0, sq - 1), sq // 2)[i % 5], sk) for i, (sq, sk) in enumerate(lengths)]


def is_paged(p: Mapping[str, Any], lengths: Sequence[tuple[int, int]], *, is_local: bool) -> bool:
    """Return whether a paged entry function serves it (paged_launcher.h)."""
    if p["page"] or is_local or p["lengths"] == "equal" or p["d"] not in PAGED_HEAD_DIMS:
        return bool(p["page"])
    queries, keys = (sum(column) for column in zip((0, 0), *lengths, strict=True))
    has_tiles = p["h"] * len(lengths) > min(p["max_ctas"] or MULTIPROCESSORS, MULTIPROCESSORS)
    return bool(p["hkv"] < p["h"] and has_tiles and keys and queries <= WARPGROUP_ROWS * len(lengths))


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
    packed = {**batch, **rows, CUMULATIVE: cumulative[0].clone(), "cu_seqlens_k": cumulative[1].clone()}
    if p["used"]:
        counts = [sq for sq, _ in drop_unused(p, lengths)]
        unused = torch.cat([torch.arange(sq) >= count for (sq, _), count in zip(lengths, counts, strict=True)]).to(pairs.device)
        rows["q"][unused] = math.nan
        packed |= {"seqused_q": torch.tensor(counts, dtype=torch.int32, device=pairs.device), "left_out": unused}
    if p["leftpad"]:
        return _place_behind_padding(packed, [sk for _, sk in lengths])
    return _place_in_pages(p, packed, [sk for _, sk in lengths]) if p["page"] else packed


def _place_in_pages(p: Mapping[str, Any], packed: Mapping[str, Any], lengths: list[int]) -> dict[str, Any]:
    """Copy the keys into pages. With ``strided`` the pools are views of one tensor (pages, 2, heads, keys, d)."""
    import torch

    device, page = packed["k"].device, p["page"]
    widths = [-(-length // page) for length in lengths]
    order = torch.randperm(sum(widths) + 2, generator=torch.Generator().manual_seed(sum(lengths))).to(torch.int32)
    table = torch.tensor(WRONG_ENTRIES, dtype=torch.int32).repeat(len(lengths), max(widths) // len(WRONG_ENTRIES) + 1)
    table = table[:, : max(widths)].contiguous()  # ends with the longest sequence, so that memcheck sees a read past it
    pools = torch.full((len(order), 2, p["hkv"], page, p["d"]), math.nan, dtype=packed["k"].dtype, device=device)
    k, v = (
        (pool.transpose(1, 2) for pool in pools.unbind(1)) if p["strided"] else pools.view(2, len(order), page, p["hkv"], p["d"])
    )
    row = used = 0
    for i, (length, width) in enumerate(zip(lengths, widths, strict=True)):
        table[i, :width] = entries = order[used : used + width]
        for rows, pool in ((packed["k"], k), (packed["v"], v)):
            whole = torch.full((width * page, *rows.shape[1:]), math.nan, dtype=rows.dtype, device=device)
            whole[:length] = rows[row : row + length]
            pool[entries.long().to(device)] = whole.unflatten(0, (width, page))
        row, used = row + length, used + width
    used_keys = torch.tensor(lengths, dtype=torch.int32, device=device)
    kept = {name: value for name, value in packed.items() if name != "cu_seqlens_k"}
    return {**kept, "k": k, "v": v, "page_table": table.to(device), "seqused_k": used_keys}


def _place_behind_padding(packed: Mapping[str, Any], lengths: list[int]) -> dict[str, Any]:
    """Copy the keys into caches (sequences, capacity, heads, d)."""
    import torch

    device, shape = packed["k"].device, packed["k"].shape[1:]
    padding = [PADDING[i % len(PADDING)] for i in range(len(lengths))]
    capacity = max(map(sum, zip(padding, lengths, strict=True))) + 1
    caches = {name: packed[name].new_full((len(lengths), capacity, *shape), math.nan) for name in ("k", "v")}
    for name, cache in caches.items():
        for i, keys in enumerate(packed[name].split(lengths)):
            cache[i, padding[i] : padding[i] + lengths[i]] = keys
    first = torch.tensor(padding, dtype=torch.int32, device=device)
    kept = {name: value for name, value in packed.items() if name != "cu_seqlens_k"}
    return {**kept, **caches, "cache_leftpad": first, "seqused_k": first + packed["cu_seqlens_k"].diff()}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out`` like the queries and ``lse`` (heads, queries)."""
    import torch

    q = inputs["q"]
    lse = torch.empty((q.shape[1], q.shape[0]), dtype=torch.float32, device=q.device)
    return {"out": torch.empty(q.shape, dtype=q.dtype, device=q.device), "lse": lse}


def run(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any], options: Mapping[str, Any], flash_options: Mapping[str, Any]
) -> None:
    """Launch once on the current stream, with these arguments of either function."""
    import flashcore

    leave_out(inputs, outputs)
    if inputs["flash"]:
        q, k, v = (inputs[name] for name in ("q", "k", "v"))
        if "page_table" in inputs or "cache_leftpad" in inputs:
            results = flashcore.flash_attn_with_kvcache(
                q, k, v, cache_seqlens=inputs["seqused_k"], page_table=inputs.get("page_table"), cu_seqlens_q=inputs[CUMULATIVE],
                max_seqlen_q=len(q), causal=inputs["causal"], return_softmax_lse=True, cache_leftpad=inputs.get("cache_leftpad"),
                **flash_options,
            )  # fmt: skip
        else:
            results = flashcore.flash_attn_varlen_func(
                q,
                k,
                v,
                inputs[CUMULATIVE],
                inputs["cu_seqlens_k"],
                len(q),
                len(k),
                causal=inputs["causal"],
                return_attn_probs=True,
                seqused_q=inputs.get("seqused_q"),
                **flash_options,
            )
        for name, result in zip(("out", "lse"), results, strict=True):
            outputs[name].copy_(result)
        leave_out(inputs, outputs)
        return
    flashcore.attention_varlen(
        inputs["q"], inputs["k"], inputs["v"], inputs[CUMULATIVE], inputs.get("cu_seqlens_k"),
        page_table=inputs.get("page_table"), seqused_k=inputs.get("seqused_k"), seqused_q=inputs.get("seqused_q"),
        causal=inputs["causal"], out=outputs["out"], lse=outputs["lse"], max_ctas=inputs["max_ctas"], **options,
    )  # fmt: skip


def leave_out(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Give unused rows the values of the reference."""
    if "left_out" in inputs:
        outputs["out"][inputs["left_out"]] = 0
        outputs["lse"][:, inputs["left_out"]] = -math.inf


def reference(inputs: Mapping[str, Any], compute: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Compute each sequence with the batched reference and concatenate the results."""
    import torch

    starts = inputs[CUMULATIVE].tolist()
    counts = inputs["seqused_q"].tolist() if "seqused_q" in inputs else [end - start for start, end in itertools.pairwise(starts)]
    results = []
    for i, (row, count) in enumerate(zip(starts, counts, strict=False)):
        keys = {name: _gather_keys(inputs, name, i)[None] for name in ("k", "v")}
        one = {name: value for name, value in inputs.items() if name not in (CUMULATIVE, "page_table")}
        results.append(compute({**one, "q": inputs["q"][None, row : row + count], **keys, "layout": "bshd"}))
    out, lse = torch.cat([result["out"][0] for result in results]), torch.cat([result["lse"][0] for result in results], dim=1)
    if "left_out" not in inputs:
        return {"out": out, "lse": lse}
    used, q = ~inputs["left_out"], inputs["q"]
    whole = {"out": out.new_zeros(q.shape), "lse": lse.new_full((len(lse), len(q)), -math.inf)}
    whole["out"][used], whole["lse"][:, used] = out, lse
    return whole


def _gather_keys(inputs: Mapping[str, Any], name: str, sequence: int) -> Any:
    """Return the keys or values of a sequence, (rows, heads, d)."""
    if "cache_leftpad" in inputs:
        return inputs[name][sequence, int(inputs["cache_leftpad"][sequence]) : int(inputs["seqused_k"][sequence])]
    if "page_table" not in inputs:
        start, end = inputs["cu_seqlens_k"][sequence : sequence + 2].tolist()
        return inputs[name][start:end]
    pool, length = inputs[name], int(inputs["seqused_k"][sequence])
    entries = inputs["page_table"][sequence, : -(-length // pool.shape[1])].long()
    return pool[entries].flatten(0, 1)[:length]
