"""The sequences of the decode subject: their numbers of keys and queries. Packed queries differ in number, and a launch serves few."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

MAX_QUERIES = 16
MIN_TMA_PAGE = 16
HEAD_DIMS, KERNEL_HEAD_DIMS, FP8_STEP = range(8, 257, 8), (64, 128, 256), 16
MAX_DRAWN = 64  # queries of a sequence that is left out
ROW_TILE, WARPGROUP_ROWS, MAX_WARPGROUP_HEAD_DIM = 16, 64, 128  # of decode/config.h
COUNTED_HEAD_DIM, TILE_KEYS = 64, 128
UNUSED_ROWS = 2  # behind the queries of a packed sequence


def _make_ragged(b: int, sk: int) -> list[int]:
    """Space lengths log-uniformly from sk/128 to sk, short and long alternating."""
    return [round(sk * 128.0 ** (((b - 1 - i // 2 if i % 2 else i // 2) + 0.5) / b - 1.0)) for i in range(b)]


def _make_edges(b: int, sk: int) -> list[int]:
    """Cycle through 0, 1, sk and the lengths next to a page or tile boundary, up to sk."""
    lengths = [0, 1, sk, *(size + step for size in (16, 64, 128, 256) for step in (-1, 0, 1)), sk - 1]
    return [min(sk, lengths[i % len(lengths)]) for i in range(b)]


LENGTHS: dict[str, Callable[[int, int], list[int]]] = {
    "full": lambda b, sk: [sk] * b,
    "ragged": _make_ragged,
    "edges": _make_edges,
}


def check(p: Mapping[str, Any]) -> None:
    """ValueError if the parameters do not fit together."""
    if p["packed"] and (p["new"] or p["flash"] or p["cache"] or p["splits"] or p["deterministic"]):
        raise ValueError(f"packed: needs defaults of new, flash, cache, splits and deterministic, is {p['packed']}")
    if p["used"] and not p["packed"]:
        raise ValueError("used: needs packed, is true")
    if not p["packed"] and p["sq"] > MAX_QUERIES:
        raise ValueError(f"sq: must be from 1 to {MAX_QUERIES}, is {p['sq']}")
    if p["vary"] and (p["packed"] or p["new"] or p["flash"]):
        raise ValueError(f"vary: needs defaults of packed, new and flash, is {p['vary']!r}")
    if p["dtype"] == "e4m3" and not p["cache"]:
        raise ValueError("dtype: e4m3 needs cache e4m3, is ''")
    if p["scales"] and not (p["cache"] and (p["page"] or p["scales"] == "token")):
        raise ValueError(f"scales: needs cache e4m3, and page pages, is {p['scales']!r}")
    if p["cache"] and p["d"] % FP8_STEP:
        raise ValueError(f"d: must be a multiple of {FP8_STEP} over caches of E4M3, is {p['d']}")


def fills_warpgroup(p: Mapping[str, Any]) -> bool:
    """Return whether packed queries have more rows of a KV head than one row tile, and no more than a warpgroup (decode.cu)."""
    rows = p["packed"] * p["h"] // p["hkv"]
    return bool(p["packed"] < MAX_QUERIES and p["d"] <= MAX_WARPGROUP_HEAD_DIM and ROW_TILE < rows <= WARPGROUP_ROWS)


def is_gathered(p: Mapping[str, Any]) -> bool:
    """Return whether the kernel copies the keys of such pages one by one."""
    return 0 < p["page"] < MIN_TMA_PAGE or p["page"] & (p["page"] - 1) != 0


def name_entry(p: Mapping[str, Any], *, is_local: bool) -> str:
    """Name the entry function that serves a workload."""
    kind = "local_" if is_local else ""
    if is_gathered(p):
        kind = "gather_"
    elif p["packed"]:
        kind += "warpgroup_" if fills_warpgroup(p) else "ragged_"
    elif p["deterministic"] and not (kind or p["splits"] or p["cache"]):
        kind = "deterministic_"
    head_dim = min(size for size in KERNEL_HEAD_DIMS if size >= p["d"])
    if p["scales"]:
        return f"flashcore_decode_key_scales_d{head_dim}"
    return f"flashcore_decode_{kind}d{head_dim}_{p['dtype']}{'_e4m3' if p['cache'] else ''}"


def count_queries(p: Mapping[str, Any]) -> list[int]:
    """Count the queries of each sequence: ``sq``, or with ``packed`` one, ``packed``, none, ``sq`` (too many), and numbers between."""
    if not p["packed"]:
        return [p["sq"]] * p["b"]
    cycle = (1, p["packed"], 0, p["sq"], (p["packed"] + 1) // 2, 1)
    return [cycle[i % len(cycle)] for i in range(p["b"])]


def is_served(p: Mapping[str, Any], count: int) -> bool:
    """Return whether the launch computes a sequence of so many queries."""
    return not p["packed"] or 1 <= count <= p["packed"]


def pack(q: Any, p: Mapping[str, Any]) -> dict[str, Any]:
    """Put the queries of all sequences behind each other, and add where each begins and which rows no launch writes."""
    import torch

    if not p["packed"]:
        return {"q": q}
    counts = count_queries(p)
    sizes = [min(p["sq"], count + UNUSED_ROWS * p["used"]) for count in counts]
    served = [count * is_served(p, count) for count in counts]
    left_out = torch.cat([torch.arange(size) >= count for size, count in zip(sizes, served, strict=True)]).to(q.device)
    starts, used = (
        torch.tensor(list(each), dtype=torch.int32, device=q.device) for each in (accumulate(sizes, initial=0), counts)
    )
    rows = torch.cat([q[i, :size] for i, size in enumerate(sizes)])
    if p["used"]:
        rows[left_out] = math.nan
    options = {"seqused_q": used} if p["used"] else {}
    return {"q": rows, "starts": starts, "left_out": left_out if any(left_out) else None, "max_queries": p["packed"], **options}


def shape_of_lse(inputs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return (batch, heads, queries), or (heads, all queries)."""
    q = inputs["q"]
    return (q.shape[1], q.shape[0]) if "starts" in inputs else (q.shape[0], q.shape[2], q.shape[1])


def split(inputs: Mapping[str, Any], out: Any, lse: Any) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield each sequence that a launch serves: its number, and its rows of query, output and log-sum-exp."""
    q = inputs["q"]
    if "starts" not in inputs:
        yield from ((i, q[i], out[i], lse[i]) for i in range(len(q)))
        return
    starts = inputs["starts"].tolist()
    counts = inputs["seqused_q"].tolist() if "seqused_q" in inputs else [end - start for start, end in pairwise(starts)]
    for i, (start, count) in enumerate(zip(starts, counts, strict=False)):
        if 1 <= count <= inputs["max_queries"]:
            rows = slice(start, start + count)
            yield i, q[rows], out[rows], lse[:, rows]


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Launch once. Rows that no launch writes have the values of the reference before."""
    import flashcore

    if inputs["left_out"] is not None:
        outputs["out"][inputs["left_out"]] = 0
        outputs["lse"][:, inputs["left_out"]] = float("-inf")
    flashcore.decode_varlen(
        *(inputs[name] for name in ("q", "k", "v", "starts")), max_queries=inputs["max_queries"], lengths=inputs["lengths"],
        page_table=inputs["page_table"], out=outputs["out"], lse=outputs["lse"], causal=inputs["causal"], max_ctas=inputs["max_ctas"],
        **({"seqused_q": inputs["seqused_q"]} if "seqused_q" in inputs else {}), **options,
    )  # fmt: skip


def check_counted(p: Mapping[str, Any]) -> None:
    """ValueError unless the tiles that decode loads can be counted."""
    is_plain = not any(p[name] for name in ("flash", "packed", "new", "vary"))
    has_limit = p["left"] >= 0 or p["chunk"] > 0
    if p["counted"] and not (is_plain and has_limit and (p["d"], p["hkv"]) == (COUNTED_HEAD_DIM, 1)):
        raise ValueError(f"counted: needs left or chunk, d = {COUNTED_HEAD_DIM}, hkv = 1 and a plain call, left is {p['left']}")


def count_tiles(inputs: Mapping[str, Any]) -> Any:
    """Count the key tiles of decode from the first that a query sees, one for a sequence without keys. All heads share them."""
    import torch

    lengths, tile, left, chunk = inputs["lengths"].long(), TILE_KEYS, inputs["left"], inputs["chunk"]
    position = (lengths - inputs["q"].shape[1]).clamp(min=0)
    first = (position - left if left >= 0 else 0 * position).clamp(min=0)
    first = torch.maximum(first, position // chunk * chunk) if chunk else first
    return ((lengths + tile - 1) // tile - first // tile).clamp(min=1).sum().reshape(1).to(torch.float32)
