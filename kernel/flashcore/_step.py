"""Repeat a step of decode through a private operator with few arguments."""
# PyTorch looks at every argument of a call, None as well. Calls with gradients, modes or subclasses of tensors keep their own door.

from __future__ import annotations

from typing import Any

import torch

from flashcore import _replay, ops
from flashcore._cache import attend_to_cache
from flashcore._launch import MISSING

SCHEMA = (
    "(Tensor q, Tensor(a!) k, Tensor(b!) v, Tensor? k_new, Tensor? v_new, Tensor seqused_k, Tensor? page_table, Tensor? q_descale, "
    "Tensor? k_descale, Tensor? v_descale, float? softmax_scale, bool causal, int num_splits) -> (Tensor, Tensor)"
)


def _compute(q: Any, k: Any, v: Any, k_new: Any, v_new: Any, lengths: Any, table: Any, *rest: Any) -> Any:
    *scales, scale, causal, splits = rest
    return attend_to_cache(
        (q, k, v, k_new, v_new), lengths=lengths, page_table=table, cu_seqlens_q=None, max_seqlen_q=None, scales=tuple(scales),
        causal=causal, scale=scale, splits=splits, max_ctas=0, return_lse=True,
    )  # fmt: skip


def register(library: Any) -> Any:
    """Define the operator, and return its handle."""
    library.define("_step" + SCHEMA)
    _replay.implement(library, "_step", SCHEMA, _compute, _replay.FUNCTIONAL)
    library.impl("_step", torch.library.fallthrough_kernel, "Autograd")
    return torch._C._dispatch_find_schema_or_throw(f"{library.ns}::_step", "")  # noqa: SLF001 - as in torch.ops


def repeat(
    q: Any, k: Any, v: Any, k_new: Any, v_new: Any, lengths: Any, table: Any, q_scale: Any, k_scale: Any, v_scale: Any, scale: Any,
    causal: Any, splits: Any, return_lse: Any,
) -> Any:  # fmt: skip
    """Call the operator, or return MISSING."""
    if (
        HANDLE is None or type(q) is not _Tensor or type(k) is not _Tensor or type(v) is not _Tensor or type(lengths) is not _Tensor
        or type(causal) is not bool or type(splits) is not int or not (scale is None or type(scale) is float) or _is_grad_enabled()
        or _is_watched((q, k_new, v_new, table, q_scale, k_scale, v_scale)) or _count_modes()
    ):  # fmt: skip
        return MISSING
    try:
        results = _call(HANDLE, q, k, v, k_new, v_new, lengths, table, q_scale, k_scale, v_scale, scale, causal, splits)
        return results if return_lse else results[0]
    except RuntimeError:  # the caller's way raises it with its type
        return MISSING


HANDLE = None if _replay.find() is None else register(ops._LIBRARY)  # noqa: SLF001 - PyTorch allows one library per namespace
_Tensor, _is_grad_enabled = torch.Tensor, torch.is_grad_enabled
if HANDLE is not None:  # a name of this module takes less time than one of PyTorch's
    _call, _count_modes = torch._C._dispatch_call_boxed, torch._C._len_torch_dispatch_stack  # noqa: SLF001 - public ones take longer
    _is_watched = torch.overrides.has_torch_function
