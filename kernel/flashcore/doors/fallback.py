"""Call the Triton kernel with the arguments of FlashCore's functions.

It serves float16, bfloat16 and E4M3 with head dimensions up to 256, shared key heads, causal masks, windows, chunks, caps, sinks, packed
sequences, and caches: in pages, chosen by index, behind padding, after an append. It computes no gradient.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import torch

from flashcore._append import append, locate
from flashcore._fp8 import BYTE
from flashcore._kvcache import make_table
from flashcore._rotary import have_positions, rotate
from flashcore.doors.choice import SERVED, RefusalError
from flashcore.doors.triton_launch import Problem, Scores, attend, check, get_batch

MAX_E4M3 = 448.0
NAMES = {
    "softmax_scale": "scale", "window_size": "window", "attention_chunk": "chunk", "return_attn_probs": "return_lse",
    "return_softmax_lse": "return_lse", "q_descale": "q_scale", "k_descale": "k_scale", "v_descale": "v_scale", "cache_seqlens": "seqused_k",
}  # fmt: skip
CACHE_NAMES = {"k_cache": "k", "v_cache": "v", "k": "k_new", "v": "v_new"}
IGNORED = {
    "deterministic", "num_splits", "pack_gqa", "sm_margin", "scheduler_metadata", "max_seqlen_k", "max_ctas",
}  # fmt: skip
"""They only change how a result is computed."""
ROTARY = ("rotary_cos", "rotary_sin", "rotary_seqlens", "rotary_interleaved", "max_seqlen_q")


def call(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result. RefusalError names what the kernel does not serve, before anything is written."""
    values = _name(name, arguments, options)
    tensors = tuple(values.pop(key) for key in "qkv")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise RefusalError("q, k, v: the Triton kernel computes no gradient. Use torch.no_grad()")
    new = tuple(values.pop(key, None) for key in ("k_new", "v_new"))
    indices, starts_new = values.pop("cache_batch_idx", None), values.pop("cu_seqlens_k_new", None)
    problem = Problem(*(values.pop(key, None) for key in Problem._fields))
    lengths = problem.seqused_k
    if isinstance(lengths, int):
        lengths = torch.full((get_batch(tensors[0], problem),), lengths, dtype=torch.int32, device=tensors[0].device)
    table = problem.page_table if indices is None else make_table(indices, problem.page_table)
    problem = problem._replace(seqused_k=lengths, page_table=table)
    turn = {key: values.pop(key, None) for key in ROTARY}
    scores, out = _take_scores(values), values.pop("out", None)
    return_lse = values.pop("return_lse", False)
    for key, value in values.items():
        if value is not None and (isinstance(value, torch.Tensor) or value):
            raise RefusalError(f"{key}: the Triton kernel has no such argument")
    check(tuple(map(_view, tensors)), problem, scores, out)
    if (new[0] is None) != (new[1] is None) or (new[0] is not None and lengths is None):
        raise RefusalError("k, v, cache_seqlens: an append needs all three")
    if turn["rotary_cos"] is not None or turn["rotary_sin"] is not None:
        tensors, new = _turn(tensors, new, problem, starts_new, scores, turn)
    q, *caches = map(_view, tensors)
    if new[0] is not None:
        rows = [_round(*pair, starts_new) for pair in zip(new, caches, scores.factors[1:], strict=True)]
        problem = problem._replace(seqused_k=append((caches[0], caches[1]), (rows[0], rows[1]), lengths, table, starts_new))
    result = attend((q, *caches), problem, scores, out)
    return result if return_lse else result[0]


@functools.cache
def _get_signature(name: str) -> inspect.Signature:
    module, attribute = SERVED[name]
    return inspect.signature(getattr(importlib.import_module(module), attribute))


def _name(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return what was passed, by the names of FlashCore's kernels."""
    values = _get_signature(name).bind(*arguments, **options).arguments
    names = NAMES | CACHE_NAMES if name == "flash_attn_with_kvcache" else NAMES
    return {names.get(key, key): value for key, value in values.items() if key not in IGNORED}


def _take_scores(values: dict[str, Any]) -> Scores:
    factors = tuple(values.pop(f"{key}_scale", None) for key in "qkv")
    given = {key: values.pop(key) for key in Scores._fields if key in values}
    return Scores(**given, factors=(factors[0], factors[1], factors[2]))


def _view(tensor: torch.Tensor) -> torch.Tensor:
    """Return E4M3 as bytes. PyTorch can index and copy those on every GPU."""
    return tensor.view(BYTE) if tensor.dtype is torch.float8_e4m3fn else tensor


def _turn(tensors: Any, new: Any, problem: Problem, starts_new: Any, scores: Scores, given: dict[str, Any]) -> tuple[Any, Any]:
    """Apply rotary embedding to queries and new keys."""
    q, k, v = tensors
    q, k_new = (tensor.view(torch.float8_e4m3fn) if tensor.dtype is BYTE else tensor for tensor in (q, new[0]))
    capacity = k.shape[1] * (1 if problem.page_table is None else problem.page_table.shape[1])
    positions = problem.seqused_k if given["rotary_seqlens"] is None else given["rotary_seqlens"]
    longest = (q.shape[1] if problem.cu_seqlens_q is None else given["max_seqlen_q"], capacity)
    interleaved = given["rotary_interleaved"]
    causal = have_positions(scores.causal, scores.window, scores.chunk, longest)
    q, k_new = rotate(
        q, k_new, (given["rotary_cos"], given["rotary_sin"]), positions, (problem.cu_seqlens_q, starts_new),
        interleaved=interleaved is None or interleaved, causal=causal,
    )  # fmt: skip
    return (q, k, v), (k_new, new[1])


def _round(rows: torch.Tensor, cache: torch.Tensor, factor: torch.Tensor | None, starts: torch.Tensor | None) -> torch.Tensor:
    """Return new rows in the type of their cache. For one of E4M3 they are divided by its factor."""
    rows = _view(rows)
    if cache.dtype is not BYTE or rows.dtype is BYTE:
        return rows
    wide = rows.float()
    if factor is not None:
        wide = wide / (factor[:, None] if starts is None else factor[locate(starts, len(rows))[0]])[..., None]
    return wide.clamp(-MAX_E4M3, MAX_E4M3).to(torch.float8_e4m3fn).view(BYTE)
