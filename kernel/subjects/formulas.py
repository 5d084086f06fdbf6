"""Attention of one sequence over its keys, as a formula and by PyTorch."""

from __future__ import annotations

import math
from typing import Any


def formula(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Compute softmax(q k^T / sqrt(d)) v, (rows, heads, d), and its log-sum-exp, (heads, rows)."""
    import torch

    rows, heads, d = q.shape
    scores = q.reshape(rows, k.shape[1], -1, d).permute(1, 2, 0, 3).flatten(1, 2) @ k.permute(1, 2, 0) / math.sqrt(d)
    out = torch.softmax(scores, dim=-1) @ v.transpose(0, 1)
    return out.view(heads, rows, d).transpose(0, 1), torch.logsumexp(scores, dim=-1).view(heads, rows)


def pytorch(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Do the same with PyTorch's kernels, in the type of the inputs."""
    import torch

    repeats = ((q, 1), *((cache, q.shape[1] // k.shape[1]) for cache in (k, v)))
    heads = [tensor.transpose(0, 1)[None].repeat_interleave(repeat, dim=1).contiguous() for tensor, repeat in repeats]
    out = torch.nn.functional.scaled_dot_product_attention(*heads)[0].transpose(0, 1)
    lse = torch.ops.aten._scaled_dot_product_flash_attention(*heads)[1][0, :, : len(q)]  # noqa: SLF001 - the only function that returns the LSE
    return out, lse


def gather_rows(cache: Any, start: Any, count: int) -> Any:
    """Copy ``count`` rows of each sequence from its start."""
    import torch

    positions = start[:, None] + torch.arange(count, device=cache.device)
    return cache[torch.arange(len(cache), device=cache.device)[:, None], positions]
