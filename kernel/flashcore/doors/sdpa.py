"""The door to ``torch.nn.functional.scaled_dot_product_attention``.

``activate()`` puts FlashCore in the place of PyTorch's FlashAttention kernel, and asks PyTorch to prefer that kernel to cuDNN's.
``torch.nn.attention.activate_flash_attention_impl("flashcore")`` does the same after an import of this module. ``deactivate()`` restores both.

E4M3 has operators of its own, the overloads ``quantized``. Only the forward is replaced. PyTorch's own backward reads its output and log-sum-exp. What FlashCore refuses goes to PyTorch's kernel,
which is called by its handle and not by its name, so that it cannot come back here.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import torch
from torch.nn import attention as torch_attention

from flashcore.doors.choice import RefusalError, attempt, serve

NAME = "flashcore"
KEY = "CUDA"
DOOR = "torch SDPA"
PREVIOUS = "PyTorch's kernel"
_FLASH = int(torch_attention.SDPBackend.FLASH_ATTENTION)


def activate() -> None:
    """Open the door. A second call leaves it open."""
    torch_attention.activate_flash_attention_impl(NAME)


def deactivate() -> None:
    """Close the door, if it is open."""
    if torch_attention.current_flash_attention_impl() == NAME:
        torch_attention.restore_flash_attention_impl()


class Handle:
    """What ``activate`` changed, until ``remove``."""

    def __init__(self) -> None:
        self.library: Any = torch.library.Library("aten", "IMPL")
        previous = {name: _find_kernel(name) for name in IMPLEMENTATIONS}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a kernel is overridden
            for name, kernel in IMPLEMENTATIONS.items():
                if previous[name] is not None:
                    self.library.impl(name, functools.partial(kernel, previous[name]), KEY, with_keyset=True, allow_override=True)
        self.order = _prefer_flash()

    def remove(self) -> None:
        """Restore PyTorch's kernels, and its order of preference unless someone else has changed it."""
        if self.library is None:
            return
        self.library._destroy()  # noqa: SLF001 - else the kernels stay until Python collects the object
        self.library = None
        if torch._C._get_sdp_priority_order() == _put_first(self.order):  # noqa: SLF001 - sdpa_kernel has no setter
            torch._C._set_sdp_priority_order(self.order)  # noqa: SLF001 - as above


def _find_kernel(name: str) -> Any:
    """Return PyTorch's kernel of an operator. None if this version has no such operator, or of E4M3 no kernel."""
    packet, _, overload = name.partition(".")
    if (overload or "default") not in getattr(getattr(torch.ops.aten, packet, None), "overloads", list)():
        return None
    try:
        return torch.library.get_kernel(f"aten::{name}", KEY)
    except RuntimeError:
        if overload:
            return None
        raise


def _prefer_flash() -> list[int]:
    """Let PyTorch try FlashAttention before cuDNN. Return the order before."""
    if torch.cuda.is_available():  # PyTorch sets its order in the first call
        probe = torch.empty(1, 1, 1, 8, dtype=torch.float16, device="cuda")
        torch._fused_sdp_choice(probe, probe, probe)  # noqa: SLF001 - the cheapest such call
    order: list[int] = torch._C._get_sdp_priority_order()  # noqa: SLF001 - as above
    torch._C._set_sdp_priority_order(_put_first(order))  # noqa: SLF001 - as above
    return order


def _put_first(order: list[int]) -> list[int]:
    return [_FLASH, *(backend for backend in order if backend != _FLASH)]


def _scaled_dot_product(
    previous: Any, keys: Any, query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Compute (batch, heads, rows, d). The operator's mask is aligned bottom right, as ours."""

    def ours() -> Any:
        _refuse(dropout_p=dropout_p or None, return_debug_mask=return_debug_mask or None)
        out = torch.empty_like(query)  # keeps the query's strides
        rows = [tensor.transpose(1, 2) for tensor in (query, key, value, out)]
        _, lse = serve("attention", *rows[:3], door=DOOR, out=rows[3], causal=is_causal, scale=scale, return_lse=True)
        if is_causal and query.shape[2] > key.shape[2]:
            lse = _mark_empty_rows(lse)
        return out, lse, None, None, query.shape[2], key.shape[2], *_make_rest(query)

    def theirs() -> Any:
        return previous.call_boxed(keys, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale)

    return attempt(DOOR, ours, theirs, PREVIOUS)


def _forward(previous: Any, keys: Any, query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    """Compute (batch, rows, heads, d), or packed sequences."""

    def ours() -> Any:
        return *_compute(query, key, value, rest, options, None), *_make_rest(query)

    return attempt(DOOR, ours, lambda: previous.call_boxed(keys, query, key, value, *rest, **options), PREVIOUS)


def _forward_in_place(previous: Any, keys: Any, out: Any, query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    """Compute the same into ``out``, and return the log-sum-exp."""

    def ours() -> Any:
        return _compute(query, key, value, rest, options, out)[1]

    return attempt(DOOR, ours, lambda: previous.call_boxed(keys, out, query, key, value, *rest, **options), PREVIOUS)


def _scaled_dot_product_e4m3(
    previous: Any, keys: Any, query: Any, key: Any, value: Any, q_scale: Any, k_scale: Any, v_scale: Any, dropout_p: float = 0.0,
    is_causal: bool = False, return_debug_mask: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Compute (batch, heads, rows, d) of E4M3 in bfloat16. Factors are (batch, KV heads)."""

    def ours() -> Any:
        _refuse(dropout_p=dropout_p or None, return_debug_mask=return_debug_mask or None)
        out = torch.empty_like(query, dtype=torch.bfloat16)
        rows = [tensor.transpose(1, 2) for tensor in (query, key, value, out)]
        lse = _compute_e4m3(rows[:3], (q_scale, k_scale, v_scale), rows[3], is_causal, scale)[1]
        return out, lse, None, None, query.shape[2], key.shape[2], *_make_rest(query)

    def theirs() -> Any:
        rest = (q_scale, k_scale, v_scale, dropout_p, is_causal, return_debug_mask)
        return previous.call_boxed(keys, query, key, value, *rest, scale=scale)

    return attempt(DOOR, ours, theirs, PREVIOUS)


def _forward_e4m3(previous: Any, keys: Any, query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    """Compute (batch, rows, heads, d) of E4M3. Packed sequences and windows are refused."""

    def ours() -> Any:
        starts_q, starts_k, _, _, dropout, is_causal, debug, *scales = rest
        refused = {name: options.get(name) for name in ("window_size_left", "window_size_right", "seqused_k", "alibi_slopes")}
        _refuse(dropout_p=dropout or None, return_debug_mask=debug or None, cum_seq_q=starts_q, cum_seq_k=starts_k, **refused)
        return *_compute_e4m3((query, key, value), scales, None, is_causal, options.get("scale")), *_make_rest(query)

    return attempt(DOOR, ours, lambda: previous.call_boxed(keys, query, key, value, *rest, **options), PREVIOUS)


def _compute_e4m3(tensors: Any, scales: Any, out: Any, causal: bool, scale: float | None) -> tuple[Any, Any]:
    factors = dict(zip(("q_scale", "k_scale", "v_scale"), scales, strict=True))
    out, lse = serve("attention_e4m3", *tensors, door=DOOR, out=out, causal=causal, scale=scale, return_lse=True, **factors)
    return out, _mark_empty_rows(lse)


IMPLEMENTATIONS = {
    "_scaled_dot_product_flash_attention": _scaled_dot_product,
    "_scaled_dot_product_flash_attention.quantized": _scaled_dot_product_e4m3,
    "_flash_attention_forward": _forward,
    "_flash_attention_forward.quantized": _forward_e4m3,
    "_flash_attention_forward_no_dropout_inplace": _forward_in_place,
}


def _compute(query: Any, key: Any, value: Any, rest: tuple[Any, ...], options: dict[str, Any], out: Any) -> tuple[Any, Any]:
    starts_q, starts_k, _, _, dropout, is_causal, debug = rest
    left, right = (-1 if side is None else side for side in (options.get("window_size_left"), options.get("window_size_right")))
    used, table = options.get("seqused_k"), options.get("block_table")
    _refuse(
        dropout_p=dropout or None, return_debug_mask=debug or None, alibi_slopes=options.get("alibi_slopes"),
        seqused_k=used if starts_q is None else None, block_table=table if used is None else None,
    )  # fmt: skip
    shared: dict[str, Any] = {
        "causal": is_causal, "scale": options.get("scale"), "return_lse": True, "out": out, "window": (left, right), "door": DOOR
    }  # fmt: skip
    if starts_q is None:
        out, lse = serve("attention", query, key, value, **shared)
    else:
        starts = (starts_q, starts_k if table is None else None)
        out, lse = serve("attention_varlen", query, key, value, *starts, seqused_k=used, page_table=table, **shared)
    return out, _mark_empty_rows(lse)


def _mark_empty_rows(lse: torch.Tensor) -> torch.Tensor:
    """PyTorch's backward expects +inf in a row without keys, where ours is -inf."""
    return torch.where(lse == -math.inf, math.inf, lse)


def _make_rest(query: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Make the random state, which only dropout reads, an unused tensor and the empty mask for debugging."""
    state = torch.empty(2, dtype=torch.uint64, device=query.device)
    return state, torch.empty((), dtype=torch.uint64, device=query.device), query.new_empty(0)


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise RefusalError(f"{name}: FlashCore has no kernel with it")


torch_attention.register_flash_attention_impl(NAME, register_fn=Handle)
