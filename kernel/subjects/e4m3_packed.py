"""Packed sequences (varlen.py) for the subject of attention in E4M3."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

SCALES = ("q_scale", "k_scale", "v_scale")


def count_bytes(p: Mapping[str, Any], lengths: list[tuple[int, int]], out_bytes: int, lse_bytes: int) -> float:
    """Count as ``problem`` does."""
    rows, keys = (sum(column) for column in zip((0, 0), *lengths, strict=True))
    queries, keys = p["h"] * rows, p["hkv"] * keys
    return float(queries * (p["d"] * (1 + out_bytes) + lse_bytes) + 4 * keys * p["d"])


def inputs(
    p: Mapping[str, Any], lengths: list[tuple[int, int]], tensors: tuple[Any, Any, Any], scales: Mapping[str, Any], fp8: Any
) -> dict[str, Any]:
    """Round (1, all rows, heads, d) with the scales of their sequences."""
    import torch

    device = tensors[0].device
    counts = torch.tensor([(0, 0), *lengths], device=device)
    starts = counts.cumsum(0).to(torch.int32).T.contiguous()
    rounded = {}
    for name, tensor in zip("qkv", tensors, strict=True):
        rows = counts[1:, 0 if name == "q" else 1]
        heads = scales[f"{name}_scale"].repeat_interleave(tensor.shape[2] // p["hkv"], dim=1)
        rounded[name] = fp8.quantise(tensor[0], heads.repeat_interleave(rows, dim=0))
    return {**rounded, **scales, "cu_seqlens_q": starts[0].clone(), "cu_seqlens_k": starts[1].clone()}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once."""
    import flashcore

    flashcore.attention_e4m3_varlen(
        *(inputs[name] for name in ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")), causal=inputs["causal"],
        max_ctas=inputs["max_ctas"], out=outputs["out"], lse=outputs["lse"], **{name: inputs[name] for name in SCALES},
    )  # fmt: skip


def reference(inputs: Mapping[str, Any], compute: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Compute each sequence alone."""
    import torch

    starts = [inputs[f"cu_seqlens_{name}"].tolist() for name in "qk"]
    results = []
    for i, ((row, last_row), (key, last_key)) in enumerate(zip(*map(itertools.pairwise, starts), strict=True)):
        rows = {"q": slice(row, last_row), "k": slice(key, last_key), "v": slice(key, last_key)}
        tensors = {name: inputs[name][None, part] for name, part in rows.items()}
        results.append(compute({**tensors, **{name: inputs[name][i : i + 1] for name in SCALES}, "causal": inputs["causal"]}))
    return {
        "out": torch.cat([result["out"][0] for result in results]),
        "lse": torch.cat([result["lse"][0] for result in results], dim=1),
    }
