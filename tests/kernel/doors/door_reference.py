"""FlashCore's functions in plain PyTorch, for tests on the CPU."""

from __future__ import annotations

import math
from typing import Any

import torch


def attend(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None, window: Any = (-1, -1), softcap: float = 0.0,
    sinks: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Attend for one sequence, (rows, heads, d)."""
    (sq, heads, d), (sk, kv_heads, _) = q.shape, k.shape
    k, v = (t.repeat_interleave(heads // kv_heads, 1).float() for t in (k, v))
    s = torch.einsum("qhd,khd->hqk", q.float(), k) * (1 / math.sqrt(d) if scale is None else scale)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    i, j = torch.arange(sq)[:, None] + sk - sq, torch.arange(sk)[None]
    left, right = (-1, -1) if window is None else window
    right = 0 if causal else right
    seen = (j >= 0) & (True if left < 0 else j >= i - left) & (True if right < 0 else j <= i + right)
    s = s.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(s, -1)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks.float()[:, None].expand_as(lse))
    p = torch.exp(s - torch.where(lse == -math.inf, 0.0, lse)[..., None])
    return torch.einsum("hqk,khd->qhd", p, v).to(q.dtype), lse


def _finish(results: list[tuple[Any, Any]], join: Any, out: Any, return_lse: bool, dim: int) -> Any:
    outs, lse = join([o for o, _ in results], 0), join([m for _, m in results], dim)
    outs = outs if out is None else out.copy_(outs)
    return (outs, lse) if return_lse else outs


def attention(q: Any, k: Any, v: Any, *, out: Any = None, return_lse: bool = False, **options: Any) -> Any:
    return _finish([attend(*row, **options) for row in zip(q, k, v, strict=True)], torch.stack, out, return_lse, 0)


def attention_varlen(
    q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, *, seqused_q: Any = None, seqused_k: Any = None, page_table: Any = None, out: Any = None,
    return_lse: bool = False, **options: Any,
) -> Any:  # fmt: skip
    results = []
    for b in range(len(cu_q) - 1):
        rows = slice(cu_q[b], cu_q[b + 1])
        if page_table is None:
            keys = slice(int(cu_k[b]), int(cu_k[b + 1]) if seqused_k is None else int(cu_k[b] + seqused_k[b]))
            own = k[keys], v[keys]
        else:
            own = tuple(t[page_table[b].clamp(min=0).long()].flatten(0, 1)[: seqused_k[b]] for t in (k, v))
        results.append(attend(q[rows], *own, **options))
    return _finish(results, torch.cat, out, return_lse, 1)


def _rename(options: dict[str, Any]) -> dict[str, Any]:
    names = {
        "softmax_scale": "scale",
        "window_size": "window",
        "return_attn_probs": "return_lse",
        "return_softmax_lse": "return_lse",
    }
    ignored = {"deterministic", "num_splits", "pack_gqa", "sm_margin", "scheduler_metadata"}
    return {names.get(name, name): value for name, value in options.items() if name not in ignored}


def flash_attn_func(q: Any, k: Any, v: Any, softmax_scale: Any = None, causal: bool = False, **options: Any) -> Any:
    return attention(q, k, v, scale=softmax_scale, causal=causal, **_rename(options))


def flash_attn_varlen_func(q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, max_q: int, max_k: int, **options: Any) -> Any:
    assert type(max_q) is type(max_k) is int
    return attention_varlen(q, k, v, cu_q, cu_k, **_rename(options))


def flash_attn_with_kvcache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, *, cache_seqlens: Any = None, page_table: Any = None,
    cu_seqlens_q: Any = None, max_seqlen_q: Any = None, **options: Any,
) -> Any:  # fmt: skip
    options, results = _rename(options), []
    if cu_seqlens_q is not None:
        return attention_varlen(
            q, k_cache, v_cache, cu_seqlens_q, None, seqused_k=cache_seqlens, page_table=page_table, **options
        )
    return_lse = options.pop("return_lse", False)
    for b in range(len(q)):
        length = (
            k_cache.shape[1]
            if cache_seqlens is None
            else int(cache_seqlens if isinstance(cache_seqlens, int) else cache_seqlens[b])
        )
        if k is not None:
            for i in range(k.shape[1]):
                page, row = (
                    (b, length + i)
                    if page_table is None
                    else (page_table[b, (length + i) // k_cache.shape[1]], (length + i) % k_cache.shape[1])
                )
                k_cache[page, row], v_cache[page, row] = k[b, i], v[b, i]
            length += k.shape[1]
        own = (k_cache[b], v_cache[b]) if page_table is None else (
            t[page_table[b].clamp(min=0).long()].flatten(0, 1) for t in (k_cache, v_cache)
        )  # fmt: skip
        kept = [t[:length] for t in own]
        results.append(attend(q[b], *kept, **options))
    return _finish(results, torch.stack, None, return_lse, 0)


def attention_e4m3(
    q: Any, k: Any, v: Any, *, causal: bool, scale: Any, return_lse: bool, out: Any, q_scale: Any, k_scale: Any, v_scale: Any
) -> Any:
    """Compute E4M3 with factors (batch, KV heads), in bfloat16."""
    if q.dtype is not torch.float8_e4m3fn:
        raise ValueError(f"q: must be E4M3, is {q.dtype}")
    factors = [1.0 if factor is None else factor for factor in (q_scale, k_scale, v_scale)]
    group = q.shape[2] // k.shape[2]
    spread = [
        f if isinstance(f, float) else f.repeat_interleave(n, dim=1)[:, None, :, None]
        for f, n in zip(factors, (group, 1, 1), strict=True)
    ]
    rows = [x.float() * factor for x, factor in zip((q, k, v), spread, strict=True)]
    result, lse = attention(*rows, causal=causal, scale=scale, return_lse=True)
    if out is None:
        out = torch.empty_like(result, dtype=torch.bfloat16)
    out.copy_(result)
    return (out, lse) if return_lse else out
