"""FlashAttention-3's private functions, which Megatron-LM and TransformerEngine import: forward and backward without autograd."""

from __future__ import annotations

import inspect
from typing import Any

import torch

_NEW_NAMES = {"qv": "q_v", "out_": "out", "causal": "is_causal", "rotary_interleaved": "is_rotary_interleaved"}
_CHANGED = {
    "window_size_left": -1, "window_size_right": -1, "attention_chunk": 0, "softcap": 0.0, "causal": False, "is_causal": False,
    "rotary_interleaved": True, "num_splits": 1, "sm_margin": 0, "deterministic": False,
}  # fmt: skip
_FORWARD = (
    "q k v k_new v_new qv out_ cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q seqused_k max_seqlen_q max_seqlen_k page_table "
    "kv_batch_idx leftpad_k rotary_cos rotary_sin seqlens_rotary q_descale k_descale v_descale softmax_scale causal window_size_left "
    "window_size_right attention_chunk softcap rotary_interleaved scheduler_metadata num_splits pack_gqa sm_margin"
)
_BACKWARD = (
    "dout q k v out softmax_lse cu_seqlens_q cu_seqlens_k sequed_q sequed_k max_seqlen_q max_seqlen_k dq dk dv softmax_scale is_causal "
    "window_size_left window_size_right softcap deterministic sm_margin"
)


def _make_signature(names: str, required: int) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([
        inspect.Parameter(name, kind) if i < required else inspect.Parameter(name, kind, default=_CHANGED.get(name))
        for i, name in enumerate(names.split())
    ])  # fmt: skip


def flash_attn_forward(*arguments: Any, **options: Any) -> tuple[torch.Tensor, ...]:
    """Return the output, the log-sum-exp and two empty tensors."""
    bound = FORWARD.bind(*arguments, **options).arguments
    out, lse, *_ = torch.ops.flash_attn_3.fwd(**{_NEW_NAMES.get(name, name): value for name, value in bound.items()})
    return out, lse, out.new_empty(0), out.new_empty(0)


def flash_attn_backward(*arguments: Any, **options: Any) -> torch.Tensor:
    """Write the gradients into ``dq``, ``dk`` and ``dv``, and return an empty tensor."""
    options |= {"is_causal": options.pop("causal")} if "causal" in options else {}
    bound = BACKWARD.bind(*arguments, **options).arguments
    torch.ops.flash_attn_3.bwd(**{name.replace("sequed", "seqused"): value for name, value in bound.items()})
    return bound["q"].new_empty(0)


FORWARD, BACKWARD = _make_signature(_FORWARD, 3), _make_signature(_BACKWARD, 6)
vars(flash_attn_forward)["__signature__"], vars(flash_attn_backward)["__signature__"] = FORWARD, BACKWARD
