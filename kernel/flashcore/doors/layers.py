"""Attention of a model's layer: by FlashCore, or by PyTorch where FlashCore refuses.

In a graph of torch.compile the whole choice is one operator, ``flashcore_doors::attend``.
"""

from __future__ import annotations

from typing import Any

import torch

from flashcore.doors.choice import RefusalError, attempt, serve

SHORT = 16
"""The most queries of a sequence that the decode kernels serve."""
Options = tuple[float | None, bool, int, int, float]
"""The scale, whether the mask is causal, both sides of the window and the cap."""

Limits = tuple[torch.Tensor | None, torch.Tensor | None]
"""How many keys each sequence uses, and how many of them come before the first that counts. None: all, and none."""


def attend(door: str, tensors: Any, limits: Limits, options: Options, sinks: torch.Tensor | None) -> Any:
    """Attend from queries to keys, (batch, rows, heads, d), causally aligned bottom right."""
    if limits[0] is None and limits[1] is None and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        scale, causal, left, right, softcap = options

        def train() -> Any:
            return serve(
                "flash_attn_func", *tensors, scale, causal, window_size=(left, right), softcap=softcap, sinks=sinks, door=door
            )

        return attempt(door, train, lambda: compute_plainly(tensors, limits, options, sinks), "PyTorch")
    if torch.compiler.is_compiling():
        return torch.ops.flashcore_doors.attend(door, *tensors, *limits, *options, sinks)
    return _infer(door, tensors, limits, options, sinks)


def _infer(door: str, tensors: Any, limits: Limits, options: Options, sinks: Any) -> Any:
    function = _call_behind_padding if limits[1] is not None else _call
    return attempt(
        door, lambda: function(door, tensors, limits, options, sinks), lambda: compute_plainly(tensors, limits, options, sinks),
        "PyTorch",
    )  # fmt: skip


def _call(door: str, tensors: Any, limits: Limits, options: Options, sinks: Any) -> Any:
    scale, causal, left, right, softcap = options
    return serve(
        "flash_attn_with_kvcache", *tensors, cache_seqlens=limits[0], softmax_scale=scale, causal=causal, window_size=(left, right),
        softcap=softcap, sinks=sinks, door=door,
    )  # fmt: skip


def _call_behind_padding(door: str, tensors: Any, limits: Limits, options: Options, sinks: Any) -> Any:
    """Treat each head of the keys as a sequence of its own, because their rows are next to each other in a model's cache.

    Few queries read single keys through a table, which the decode kernels can divide. Many read packed sequences.
    """
    q, k, v = (tensor.transpose(1, 2) for tensor in tensors)  # (batch, heads, rows, d)
    (batch, kv_heads, keys, d), (heads, rows) = k.shape, q.shape[1:3]
    scale, causal, left, right, softcap = options
    group, count, device = heads // kv_heads, batch * kv_heads, q.device
    ends, first = (tensor.clamp(0, keys).repeat_interleave(kv_heads) for tensor in limits)
    used = (ends - first).clamp(min=0)
    packed = q.reshape(batch, kv_heads, group, rows, d).transpose(2, 3).reshape(count * rows, group, d)
    starts = torch.arange(0, count * rows + 1, rows, dtype=torch.int32, device=device)
    begin = torch.arange(0, count * keys + 1, keys, dtype=torch.int32, device=device)
    sides = {"causal": causal, "softcap": softcap, "door": door}
    if sinks is not None:
        raise RefusalError("sinks: FlashCore has no kernel with them behind padding")
    if rows <= SHORT:
        places = begin[:-1, None] + (first[:, None] + torch.arange(keys, dtype=torch.int32, device=device)).clamp(max=keys - 1)
        pages = (tensor.reshape(count * keys, 1, 1, d) for tensor in (k, v))
        out = serve(
            "flash_attn_with_kvcache", packed, *pages, cache_seqlens=used, page_table=places, cu_seqlens_q=starts,
            max_seqlen_q=rows, softmax_scale=scale, window_size=(left, right), **sides,
        )  # fmt: skip
    else:
        begin[:-1] += first
        caches = (tensor.reshape(count * keys, 1, d) for tensor in (k, v))
        out = serve(
            "attention_varlen", packed, *caches, starts, begin, seqused_k=used, scale=scale, window=(left, right), **sides
        )  # fmt: skip
    return out.view(batch, kv_heads, rows, group, d).permute(0, 2, 1, 3, 4).reshape(batch, rows, heads, d)


def compute_plainly(tensors: Any, limits: Limits, options: Options, sinks: Any) -> Any:
    """Compute the same in PyTorch: by SDPA with a mask, or with a cap or sinks step by step in float32."""
    q, k, v = (tensor.transpose(1, 2) for tensor in tensors)
    scale, causal, left, right, softcap = options
    rows, keys, device = q.shape[2], k.shape[2], q.device
    ends, first = limits
    end = torch.tensor(keys, device=device) if ends is None else ends[:, None, None, None]
    i = torch.arange(rows, device=device)[:, None] + end - rows
    j = torch.arange(keys, device=device)
    seen = (j < end) & (j >= (0 if first is None else first[:, None, None, None]))
    seen = seen if left < 0 else seen & (j >= i - left)
    seen = seen if right < 0 and not causal else seen & (j <= i + (0 if causal else right))
    if not softcap and sinks is None:
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale, enable_gqa=True)
        return torch.where(seen.any(-1, keepdim=True), out, 0.0).to(q.dtype).transpose(1, 2).contiguous()
    k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], 1).float() for tensor in (k, v))
    scores = q.float() @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        logit = sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.softmax(torch.cat((scores, logit), -1), -1)[..., :-1]
    else:
        weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return (weights @ v).to(q.dtype).transpose(1, 2).contiguous()


@torch.library.custom_op("flashcore_doors::attend", mutates_args=())
def _attend(
    door: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor | None, padding: torch.Tensor | None,
    scale: float | None, causal: bool, left: int, right: int, softcap: float, sinks: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    out: torch.Tensor = _infer(door, (q, k, v), (lengths, padding), (scale, causal, left, right, softcap), sinks)
    return out.contiguous()


@_attend.register_fake
def _fake_attend(_door: str, q: torch.Tensor, _k: Any, v: torch.Tensor, *_rest: Any) -> torch.Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))
