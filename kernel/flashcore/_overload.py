"""The operator ``flash_attn_3::fwd`` as Python sees it."""

from __future__ import annotations

from typing import Any

import torch

from flashcore._launch import MISSING
from flashcore._step import HANDLE, repeat

_NUMBERS = frozenset({float, int})
_find_trace, _has_key = torch._C._get_tracing_state, torch._C._dispatch_tls_is_dispatch_key_included  # noqa: SLF001 - a trace keeps the operator
_BEFORE = torch._C.DispatchKey.PreDispatch  # noqa: SLF001 - of modes that are on no stack


class Forward(torch._ops.OpOverload):  # type: ignore[misc]  # noqa: SLF001 - PyTorch subclasses it too
    """Passes steps of decode to an operator with few arguments."""

    # PyTorch spends half of a call on a search for __torch_function__, and builds a string for each argument that a call by name leaves
    # out. has_torch_function is the same search in a tenth of the time.
    def __call__(
        self, /, q: Any = MISSING, k: Any = MISSING, v: Any = MISSING, k_new: Any = None, v_new: Any = None, q_v: Any = None, out: Any = None,
        cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, cu_seqlens_k_new: Any = None, seqused_q: Any = None,
        seqused_k: Any = None, max_seqlen_q: Any = None, max_seqlen_k: Any = None, page_table: Any = None, kv_batch_idx: Any = None,
        leftpad_k: Any = None, rotary_cos: Any = None, rotary_sin: Any = None, seqlens_rotary: Any = None, q_descale: Any = None,
        k_descale: Any = None, v_descale: Any = None, softmax_scale: Any = None, is_causal: Any = False, window_size_left: Any = -1,
        window_size_right: Any = -1, attention_chunk: Any = 0, softcap: Any = 0.0, is_rotary_interleaved: Any = False,
        scheduler_metadata: Any = None, num_splits: Any = 0, pack_gqa: Any = None, sm_margin: Any = 0, sinks: Any = None, *more: Any,
        **others: Any,
    ) -> Any:  # fmt: skip
        """Call it."""
        if (
            seqused_k is not None and out is None and cu_seqlens_q is None and cu_seqlens_k is None and cu_seqlens_k_new is None
            and seqused_q is None and max_seqlen_q is None and max_seqlen_k is None and q_v is None and kv_batch_idx is None
            and leftpad_k is None and rotary_cos is None and rotary_sin is None and seqlens_rotary is None
            and scheduler_metadata is None and sinks is None and window_size_left == -1 == window_size_right
            and not (attention_chunk or softcap or sm_margin or more or others)
            and type(window_size_left) is int is type(window_size_right) and type(attention_chunk) is int is type(sm_margin)
            and type(softcap) in _NUMBERS and (pack_gqa is None or type(pack_gqa) is bool) and type(is_rotary_interleaved) is bool
            and _find_trace() is None and not _has_key(_BEFORE)
        ):  # fmt: skip
            results = repeat(
                q, k, v, k_new, v_new, seqused_k, page_table, q_descale, k_descale, v_descale, softmax_scale, is_causal, num_splits,
                True,
            )  # fmt: skip
            if results is not MISSING:
                return *results, None, None
        given = (
            q, k, v, k_new, v_new, q_v, out, cu_seqlens_q, cu_seqlens_k, cu_seqlens_k_new, seqused_q, seqused_k, max_seqlen_q,
            max_seqlen_k, page_table, kv_batch_idx, leftpad_k, rotary_cos, rotary_sin, seqlens_rotary, q_descale, k_descale,
            v_descale, softmax_scale, is_causal, window_size_left, window_size_right, attention_chunk, softcap,
            is_rotary_interleaved, scheduler_metadata, num_splits, pack_gqa, sm_margin, sinks,
        )  # fmt: skip
        if q is MISSING or k is MISSING or v is MISSING or more or others or torch.overrides.has_torch_function(given):
            return self._op(*more, **_name(given), **others)
        return torch._C._dispatch_call_boxed(self._handle, *given)  # noqa: SLF001 - as PyTorch's custom_op does


def _name(given: tuple[Any, ...]) -> dict[str, Any]:
    """Leave out the defaults."""
    function = Forward.__call__
    # a mode then sees about what the caller wrote
    names, defaults = function.__code__.co_varnames[1:], function.__defaults__ or ()
    return {name: value for name, value, default in zip(names, given, defaults, strict=False) if value is not default}


class Packet(torch._ops.OpOverloadPacket):  # type: ignore[misc]  # noqa: SLF001
    """Has one overload."""

    def __call__(self, /, *arguments: Any, **options: Any) -> Any:
        """Call it."""
        return self.default(*arguments, **options)


def shorten(packet: Any) -> None:
    """Give the operator these classes."""
    if HANDLE is not None:  # C++ repeats launches
        packet.default.__class__ = Forward
        packet.__class__ = Packet
