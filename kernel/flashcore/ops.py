"""Operators of PyTorch on FlashCore's kernels: ``import flashcore.ops`` registers the namespace ``flashcore::``.

- ``fwd`` returns a new output and log-sum-exp. It can be compiled, exported and differentiated.
- ``fwd_out`` writes both into tensors, and returns nothing.
- ``fwd_append`` first writes new keys and values into the cache.
- ``bwd`` is PyTorch's FlashAttention-2 backward on the output of ``fwd``.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import torch

from flashcore import _replay
from flashcore._local import make_local

NAMESPACE = "flashcore"
OPTIONAL_TENSORS = (
    "cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "page_table", "q_descale", "k_descale", "v_descale"
)  # fmt: skip
_OPTIONS = ", ".join((
    *(f"Tensor? {name}=None" for name in OPTIONAL_TENSORS), "int? max_seqlen_q=None", "int? max_seqlen_k=None",
    "float? softmax_scale=None", "bool causal=False", "int num_splits=1", "int sm_margin=0", "int window_size_left=-1",
    "int window_size_right=-1", "int attention_chunk=0", "float softcap=0.0", "Tensor? sinks=None",
))  # fmt: skip
SCHEMAS = {
    "fwd": f"(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)",
    "fwd_out": f"(Tensor(a!) out, Tensor(b!)? lse, Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> ()",
    "fwd_append": (f"(Tensor q, Tensor(a!) k, Tensor(b!) v, Tensor k_new, Tensor v_new, {_OPTIONS}) -> (Tensor, Tensor)"),
    "bwd": (
        "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, "
        "int? max_seqlen_q, int? max_seqlen_k, float? softmax_scale, bool causal, int window_size_left=-1, int window_size_right=-1) "
        "-> (Tensor, Tensor, Tensor)"
    ),
}
NO_GRADIENT = OPTIONAL_TENSORS[2:]
"""Arguments that the backward does not serve."""

REFUSAL = "{}: FlashCore computes no gradient with it. Use torch.no_grad()"

BELOW = "_fwd_below"
"""Private: ``fwd`` below autograd, which C++ calls in the mode without gradients. Graphs have ``fwd``."""

DIFFERENTIABLE = "_fwd_differentiable"
"""Private: the autograd of ``fwd`` in Python, which C++ calls in the mode with gradients."""

PACKED_RANK = 3
Tensors = tuple[Any, ...]  # torch.Tensor or None
PHILOX_WORDS = 2
BACKWARD_ARGUMENTS = 14


def compute(
    results: Tensors, tensors: Tensors, new: Tensors, rest: tuple[Any, ...], *, return_lse: bool, new_starts: Any = None,
    padding: Any = None,
) -> Any:  # fmt: skip
    """Choose the kernel for an operator's arguments, and launch it."""
    from flashcore._attention import attention
    from flashcore._cache import attend_to_cache
    from flashcore._flash import compute_max_ctas
    from flashcore._varlen import attention_varlen

    (out, lse), (q, k, v) = results, tensors
    cu_q, cu_k, used_q, used_k, table, *scales, max_q, _, scale, causal, splits, margin, left, right, chunk, softcap, sinks = rest
    local = make_local((left, right), chunk, softcap, sinks)
    shared = {
        "causal": causal,
        "scale": scale,
        "max_ctas": compute_max_ctas(q, margin) if margin else 0,
        "return_lse": return_lse,
    }
    is_packed = cu_k is not None or used_q is not None
    if not is_packed and (splits != 1 or any(tensor is not None for tensor in (*new, cu_q, used_k, table, padding, *scales))):
        return attend_to_cache(
            (q, k, v, *new), lengths=used_k, page_table=table, cu_seqlens_q=cu_q, max_seqlen_q=max_q, scales=tuple(scales),
            splits=splits, out=out, lse=lse, new_starts=new_starts, padding=padding, local=local, **shared,
        )  # fmt: skip
    if is_packed and q.dtype is torch.float8_e4m3fn:
        factors = dict(zip(("q_scale", "k_scale", "v_scale"), scales, strict=True))
        return _attend_packed_e4m3(
            (q, k, v, cu_q, cu_k),
            table,
            local.name_options(),
            seqused_q=used_q,
            seqused_k=used_k,
            out=out,
            lse=lse,
            **factors,
            **shared,
        )
    shared |= local.name_options()
    for name, factor in zip(OPTIONAL_TENSORS[-3:], scales, strict=True):
        if factor is not None:
            raise NotImplementedError(f"{name}: FlashCore takes it only over a cache. Pass None")
    if is_packed:
        return attention_varlen(
            q, k, v, cu_q, cu_k, seqused_q=used_q, seqused_k=used_k, page_table=table, out=out, lse=lse, **shared
        )  # fmt: skip
    return attention(q, k, v, out=out, lse=lse, **shared)


def _attend_packed_e4m3(tensors: Tensors, table: Any, limits: Any, **options: Any) -> Any:
    from flashcore._e4m3_varlen import attention_e4m3_varlen

    if table is not None or limits:
        name = "page_table" if table is not None else "window_size, attention_chunk, softcap, sinks"
        raise NotImplementedError(f"{name}: FlashCore takes none with packed rows of E4M3. Pass the default")
    return attention_e4m3_varlen(*tensors, **options)


def _fwd(q: Any, k: Any, v: Any, *rest: Any) -> Any:
    return compute((None, None), (q, k, v), (None, None), _complete(rest), return_lse=True)


def _fwd_out(out: Any, lse: Any, q: Any, k: Any, v: Any, *rest: Any) -> None:
    compute((out, lse), (q, k, v), (None, None), _complete(rest), return_lse=lse is not None)


def _fwd_append(q: Any, k: Any, v: Any, k_new: Any, v_new: Any, *rest: Any) -> Any:
    return compute((None, None), (q, k, v), (k_new, v_new), _complete(rest), return_lse=True)


_DEFAULTS = (*[None] * len(OPTIONAL_TENSORS), None, None, None, False, 1, 0, -1, -1, 0, 0.0, None)


def _complete(rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add the defaults of the schema, which the dispatcher leaves out."""
    return (*rest, *_DEFAULTS[len(rest) :])


def _bwd(*given: Any) -> Any:
    """Call PyTorch's backward. Its rows without keys have a log-sum-exp of +inf, ours of -inf."""
    dout, q, k, v, out, lse, cu_q, cu_k, max_q, max_k, scale, causal, left, right = (*given, -1, -1)[:BACKWARD_ARGUMENTS]
    if cu_q is None:
        max_q, max_k = q.shape[1], k.shape[1]
    elif max_q is None or max_k is None:
        raise ValueError("max_seqlen_q, max_seqlen_k: the backward needs both. Pass the longest lengths")
    philox = torch.empty(PHILOX_WORDS, dtype=torch.uint64, device=q.device)  # read only with dropout
    arguments = (
        dout, q, k, v, out, torch.where(lse == -math.inf, math.inf, lse), cu_q, cu_k, max_q, max_k, 0.0, causal, philox, philox[:0]
    )  # fmt: skip
    options = {"scale": scale}
    if left >= 0 or (right >= 0 and not causal):
        options |= {"window_size_left": None if left < 0 else left, "window_size_right": None if right < 0 else right}
    if _backward_calls.is_inside:  # PyTorch's operator was overridden by one that calls this function: see torch.nn.attention
        return _call_original_backward(arguments, options)
    _backward_calls.is_inside = True
    try:
        return torch.ops.aten._flash_attention_backward(*arguments, **options)  # noqa: SLF001 - the only door to PyTorch's kernel
    finally:
        _backward_calls.is_inside = False


class _Calls(threading.local):
    is_inside = False


_backward_calls = _Calls()


def _find_original_backward() -> Any:
    """Keep PyTorch's kernel, which another package may override later. None without CUDA."""
    try:
        return torch.library.get_kernel("aten::_flash_attention_backward", "CUDA")
    except (AttributeError, RuntimeError):
        return None


def _call_original_backward(arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if _ORIGINAL_BACKWARD is None:
        raise RuntimeError("aten::_flash_attention_backward was overridden before flashcore.ops was imported. Import it first")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)  # noqa: SLF001 - what call_boxed takes
    return _ORIGINAL_BACKWARD.call_boxed(keys, *arguments, **options)


_ORIGINAL_BACKWARD = _find_original_backward()


def _fake_fwd(q: Any, *_rest: Any) -> Any:
    dtype = q.dtype if q.dtype in {torch.float16, torch.bfloat16} else torch.bfloat16
    rows, heads = (q.shape[0], q.shape[1]) if q.dim() == PACKED_RANK else (q.shape[1], q.shape[2])
    lse = (heads, rows) if q.dim() == PACKED_RANK else (q.shape[0], heads, rows)
    return torch.empty(q.shape, dtype=dtype, device=q.device), torch.empty(lse, dtype=torch.float32, device=q.device)


def _fake_fwd_out(*_arguments: Any) -> None:
    return None


def _fake_bwd(_dout: Any, q: Any, k: Any, v: Any, *_rest: Any) -> Any:
    return tuple(torch.empty_like(tensor) for tensor in (q, k, v))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
    """Keep what the backward needs."""
    q, k, v, *rest = inputs
    tensors = dict(zip(OPTIONAL_TENSORS, rest, strict=False))
    ctx.refused = [name for name in NO_GRADIENT if tensors[name] is not None]
    ctx.save_for_backward(q, k, v, *output, tensors["cu_seqlens_q"], tensors["cu_seqlens_k"])
    options = (*rest, *_DEFAULTS[len(rest) :])[len(OPTIONAL_TENSORS) :]
    chunk, softcap, sinks = options[-3:]
    is_e4m3 = q.dtype is torch.float8_e4m3fn
    refused = (("attention_chunk", chunk > 0), ("softcap", softcap > 0), ("sinks", sinks is not None), ("E4M3", is_e4m3))
    ctx.refused += [name for name, is_set in refused if is_set]
    ctx.options = (*options[:4], *options[6:8])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, dout: Any, _dlse: Any) -> tuple[Any, ...]:
    """Compute the gradients. NotImplementedError names what has none."""
    if ctx.refused:
        raise NotImplementedError(REFUSAL.format(ctx.refused[0]))
    q, k, v, out, lse, cu_q, cu_k = ctx.saved_tensors
    gradients = torch.ops.flashcore.bwd(dout.contiguous(), q, k, v, out, lse, cu_q, cu_k, *ctx.options)
    return (*gradients, *[None] * len(_DEFAULTS))


def _register_autograd(library: Any) -> None:
    """Let ``fwd`` be differentiated. Its kernel without gradients takes two thirds of the time of PyTorch's."""
    try:
        from torch._library.autograd import Info, make_autograd_impl
    except ImportError:  # another PyTorch
        torch.library.register_autograd(f"{NAMESPACE}::fwd", _backward, setup_context=_setup_context, lib=library)
        return
    operator = torch.ops.flashcore.fwd.default
    differentiate = make_autograd_impl(operator, Info(_backward_fn=_backward, _setup_context_fn=_setup_context))
    below, redispatch = torch._C._after_autograd_keyset, operator._handle.redispatch_boxed  # noqa: SLF001
    is_enabled, is_required = torch.is_grad_enabled, torch._C._any_requires_grad  # noqa: SLF001

    def autograd(keys: Any, *arguments: Any) -> Any:
        is_recorded = is_enabled() and is_required(*arguments)
        return differentiate(keys, *arguments) if is_recorded else redispatch(keys & below, *arguments)

    if _replay.find() is None:
        library.impl("fwd", autograd, "Autograd", with_keyset=True)
    else:
        _relay(library, autograd, lambda keys, *arguments: redispatch(keys & below, *arguments))


def _relay(library: Any, autograd: Any, trace: Any) -> None:
    """Let C++ choose between the private operators. Traces, modes and subclasses see ``fwd`` in the place of ``BELOW``."""
    for name in (BELOW, DIFFERENTIABLE):
        library.define(name + SCHEMAS["fwd"])
    torch.library.register_fake(f"{NAMESPACE}::{BELOW}", _fake_fwd, lib=library)
    library.impl(BELOW, torch.library.fallthrough_kernel, "Autograd")
    library.impl(BELOW, _replay.raise_again(trace), "Python", with_keyset=True)
    library.impl(DIFFERENTIABLE, _replay.raise_again(autograd), "Autograd", with_keyset=True)
    _replay.relay()


def register(library: Any) -> None:
    """Define the operators, with their kernels, shapes and gradients."""
    for name, kernel, fake, returns in (
        ("fwd", _fwd, _fake_fwd, _replay.FUNCTIONAL), ("fwd_out", _fwd_out, _fake_fwd_out, _replay.WRITES),
        ("fwd_append", _fwd_append, _fake_fwd, _replay.FUNCTIONAL), ("bwd", _bwd, _fake_bwd, None),
    ):  # fmt: skip
        library.define(name + SCHEMAS[name])
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
        if returns is None:
            library.impl(name, kernel, _replay.KEY)
        else:
            _replay.implement(library, name, SCHEMAS[name], kernel, returns)
    _register_autograd(library)


_LIBRARY = torch.library.Library(NAMESPACE, "DEF")
register(_LIBRARY)
FWD = torch.ops.flashcore.fwd.default
