"""FlashAttention-3's prefill functions on FlashCore's kernels.

An unsupported argument raises NotImplementedError before any launch. ``pack_gqa``, ``deterministic`` and ``num_splits`` are ignored,
because they may only change how the same forward result is computed. In a graph, and where a gradient is required, the registered operator is called, else the kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from flashcore import ops
from flashcore._attention import attention
from flashcore._e4m3 import attention_e4m3
from flashcore._e4m3_varlen import attention_e4m3_varlen
from flashcore._tensors import Result, count_multiprocessors, to_float, to_int
from flashcore._varlen import attention_varlen

NO_WINDOW = (-1, -1)
_PREFILL: Mapping[str, Any] = dict.fromkeys(("qv", "q_descale", "k_descale", "v_descale"))
_E4M3: Mapping[str, Any] = {"qv": None, "window_size": NO_WINDOW, "attention_chunk": 0, "softcap": 0.0, "sinks": None}
_DEFAULTS = tuple(_PREFILL.values())


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: tuple[int, int] = NO_WINDOW,
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    sinks: Any = None,
) -> Result:
    """Compute ``attention`` with FlashAttention-3's signature.

    ``sm_margin`` leaves so many multiprocessors free. ``return_attn_probs`` adds the log-sum-exp. E4M3 with d = 64, 128 or 256 gives bfloat16.
    """
    max_ctas = compute_max_ctas(q, sm_margin) if sm_margin else 0
    if getattr(q, "dtype", None) is torch.float8_e4m3fn:
        refuse_unsupported(_E4M3, (qv, window_size, attention_chunk, softcap, sinks))
        if torch.compiler.is_compiling():
            raise NotImplementedError("q: E4M3 has no operator for a graph. Call flash_attn_func outside of torch.compile")
        attend = functools.partial(
            attention_e4m3, causal=causal, scale=softmax_scale, q_scale=q_descale, k_scale=k_descale, v_scale=v_descale,
            max_ctas=max_ctas,
        )  # fmt: skip
        if not needs_gradient(q, k, v):
            return attend(q, k, v, return_lse=return_attn_probs)
        out, lse = _WithoutGradient.apply(functools.partial(attend, return_lse=True), q, k, v)
        return (out, lse) if return_attn_probs else out
    values = (qv, q_descale, k_descale, v_descale)
    if values != _DEFAULTS:
        refuse_unsupported(_PREFILL, values)
    if num_splits != 1:
        to_int(num_splits, "num_splits")
    if torch.compiler.is_compiling() or needs_gradient(q, k, v):
        rest = (None, None, to_scale(softmax_scale), causal, 1, sm_margin)
        limits = (*to_window(window_size), attention_chunk, softcap, sinks)
        out, lse = ops.FWD(q, k, v, *[None] * len(ops.OPTIONAL_TENSORS), *rest, *limits)
        return (out, lse) if return_attn_probs else out
    return attention(
        q, k, v, causal=causal, scale=softmax_scale, return_lse=return_attn_probs, max_ctas=max_ctas,
        window=window_size, chunk=attention_chunk, softcap=softcap, sinks=sinks,
    )  # fmt: skip


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: tuple[int, int] = NO_WINDOW,
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    sinks: Any = None,
) -> Result:
    """Compute ``attention_varlen`` with FlashAttention-3's signature.

    ``max_seqlen_q`` and ``max_seqlen_k`` serve the backward. The rest is as in ``flash_attn_func``.
    """
    is_e4m3, scales = getattr(q, "dtype", None) is torch.float8_e4m3fn, (q_descale, k_descale, v_descale)
    if is_e4m3:
        refuse_unsupported(_E4M3, (qv, window_size, attention_chunk, softcap, sinks))
    elif (qv, *scales) != _DEFAULTS:
        refuse_unsupported(_PREFILL, (qv, *scales))
    if num_splits != 1:
        to_int(num_splits, "num_splits")
    if torch.compiler.is_compiling() or needs_gradient(q, k, v):
        out, lse = ops.FWD(
            q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, None, *scales, max_seqlen_q, max_seqlen_k,
            to_scale(softmax_scale), causal, 1, sm_margin, *to_window(window_size), attention_chunk, softcap, sinks,
        )  # fmt: skip
        return (out, lse) if return_attn_probs else out
    if is_e4m3:
        return attention_e4m3_varlen(
            q, k, v, cu_seqlens_q, cu_seqlens_k, causal=causal, scale=softmax_scale, q_scale=q_descale, k_scale=k_descale,
            v_scale=v_descale, seqused_q=seqused_q, seqused_k=seqused_k, return_lse=return_attn_probs,
            max_ctas=compute_max_ctas(q, sm_margin) if sm_margin else 0,
        )  # fmt: skip
    return attention_varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, causal=causal, scale=softmax_scale,
        seqused_q=seqused_q, seqused_k=seqused_k, return_lse=return_attn_probs,
        max_ctas=compute_max_ctas(q, sm_margin) if sm_margin else 0,
        window=window_size, chunk=attention_chunk, softcap=softcap, sinks=sinks,
    )  # fmt: skip


class _WithoutGradient(torch.autograd.Function):
    """Let the output require a gradient, so that the backward can refuse it instead of losing it."""

    @staticmethod
    def forward(ctx: Any, attend: Callable[..., Any], *tensors: torch.Tensor) -> Any:
        """Compute the output and the log-sum-exp."""
        out, lse = attend(*tensors)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(_ctx: Any, *_gradients: Any) -> Any:
        """Refuse by name, as the operators do."""
        raise NotImplementedError(ops.REFUSAL.format("E4M3"))


def needs_gradient(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Return whether autograd has to record the call."""
    return torch.is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in (q, k, v))


def to_window(window: Any) -> tuple[int, int]:
    """Convert the window for the operator's schema."""
    left, right = (to_int(side, "window_size") for side in window)
    return left, right


def to_scale(scale: Any) -> float | None:
    """Convert the scale of the scores for the operator's schema."""
    return scale if scale is None or type(scale) is float else to_float(scale, "softmax_scale")


def compute_max_ctas(q: torch.Tensor, sm_margin: int) -> int:
    """Subtract the margin from the device's multiprocessors."""
    margin = to_int(sm_margin, "sm_margin")
    return max(1, count_multiprocessors(q.device) - margin) if isinstance(q, torch.Tensor) else 0


def refuse_unsupported(defaults: Mapping[str, Any], values: tuple[Any, ...]) -> None:
    """Raise NotImplementedError for the first value that is not the default. A list equals a tuple."""
    for (name, default), value in zip(defaults.items(), values, strict=True):
        comparable = tuple(value) if type(value) is list else value
        if comparable is default or (default is not None and not isinstance(comparable, torch.Tensor) and comparable == default):
            continue
        raise NotImplementedError(f"{name}: FlashCore supports only {default!r}, not {_format(value)}")


def _format(value: Any) -> str:
    """Format a value in one short line, a tensor as its type."""
    return f"a {type(value).__name__}" if isinstance(value, torch.Tensor) else " ".join(repr(value).split())[:40]
