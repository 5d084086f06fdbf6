"""FlashAttention-3's functions, with the arguments that servers add to them.

Off Hopper, and for what the Hopper kernels refuse, the Triton kernel computes them. In a graph of torch.compile there is no second kernel.

- ``s_aux`` is the name of ``sinks`` in Transformers and vLLM, ``block_table`` that of ``page_table`` in vLLM.
- ``flash_attn_varlen_func`` takes a page table, as vLLM's and SGLang's do. ``return_softmax_lse`` is the name of ``return_attn_probs`` there.
- ``out`` receives a copy of the output.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from flashcore import _flash, _kvcache
from flashcore.doors.choice import RefusalError, serve

__all__ = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"]

HALF = 2
IGNORED = ("fa_version", "ver")
REFUSED = ("only_qv", "alibi_slopes", "dropout_p")
ADDED = ("s_aux", "out", *IGNORED, *REFUSED)
_DENSE, _CACHE, REQUIRED = ("q", "k", "v"), ("q", "k_cache", "v_cache"), 4
_VARLEN = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")


def _describe(original: Callable[..., Any], *added: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function FlashAttention-3's signature and these keywords. Transformers and Megatron read it."""

    def describe(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)
        keywords = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None) for key in (*added, *ADDED)]
        parameters = [
            parameter.replace(default=None) if i >= REQUIRED and parameter.default is parameter.empty else parameter
            for i, parameter in enumerate(signature.parameters.values())
        ]
        vars(function)["__signature__"] = signature.replace(parameters=[*parameters, *keywords])
        return function

    return describe


@_describe(_flash.flash_attn_func)
def flash_attn_func(*arguments: Any, **options: Any) -> Any:
    """Compute attention of (batch, rows, heads, d)."""
    return _call("flash_attn_func", _order(_DENSE, arguments, options), options)


@_describe(_flash.flash_attn_varlen_func, "page_table", "block_table", "return_softmax_lse", "scheduler_metadata")
def flash_attn_varlen_func(*arguments: Any, **options: Any) -> Any:
    """Compute attention of packed sequences, (all rows, heads, d), to packed keys or to pages."""
    options = {**dict(zip(_VARLEN, arguments, strict=False)), **options}
    if len(arguments) > len(_VARLEN):
        raise TypeError("flash_attn_varlen_func: pass the arguments after max_seqlen_k by name")
    table = options.pop("block_table", None)
    table = options.pop("page_table", None) if table is None else table
    if options.pop("return_softmax_lse", None):
        options["return_attn_probs"] = True
    if table is None:
        options.pop("scheduler_metadata", None)
        given = [options.pop(name, None) for name in _VARLEN]
        given[-2:] = [longest if longest is None else int(longest) for longest in given[-2:]]
        return _call("flash_attn_varlen_func", tuple(given), options)
    tensors = tuple(options.pop(name) for name in _VARLEN[:3])
    starts, lengths = options.pop("cu_seqlens_k", None), options.pop("seqused_k", None)
    options.pop("max_seqlen_k", None)
    options.pop("deterministic", None)
    options["return_softmax_lse"] = bool(options.pop("return_attn_probs", False))
    options["cache_seqlens"] = starts.diff() if lengths is None and starts is not None else lengths
    return _call("flash_attn_with_kvcache", tensors, {**options, "page_table": table})


@_describe(_kvcache.flash_attn_with_kvcache)
def flash_attn_with_kvcache(*arguments: Any, **options: Any) -> Any:
    """Compute attention to a cache, after new keys and values were written into it."""
    if len(arguments) <= len(_CACHE) and options.get("k") is None:
        options.pop("cu_seqlens_k_new", None)  # SGLang passes it without new keys
    return _call("flash_attn_with_kvcache", _order(_CACHE, arguments, options), options)


def _order(names: tuple[str, ...], arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Move the first tensors from the keywords to the positional arguments."""
    return (*arguments, *(options.pop(name) for name in names[len(arguments) :]))


def _call(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    for key in IGNORED:
        options.pop(key, None)
    for key in REFUSED:
        value = options.pop(key, None)
        if isinstance(value, torch.Tensor) or value:
            raise RefusalError(f"{key}: FlashCore has no kernel with it")
    if arguments[1].element_size() >= HALF:  # vLLM passes them with every cache, and FlashAttention-3 reads them with E4M3 only
        for key in ("q_descale", "k_descale", "v_descale"):
            options.pop(key, None)
    sinks, out = options.pop("s_aux", None), options.pop("out", None)
    if sinks is not None:
        options["sinks"] = to_sinks(sinks)
    for key, default in (("window_size", (-1, -1)), ("attention_chunk", 0), ("num_splits", 0)):
        if key in options and options[key] is None:
            options[key] = default
    result = serve(name, *arguments, **options)
    if out is None:
        return result
    return out.copy_(result) if not isinstance(result, tuple) else (out.copy_(result[0]), *result[1:])


def to_sinks(s_aux: Any) -> Any:
    """Convert float16 to bfloat16, because the kernels read that or float32."""
    is_half = s_aux is not None and s_aux.element_size() == HALF
    return s_aux.bfloat16() if is_half else s_aux
