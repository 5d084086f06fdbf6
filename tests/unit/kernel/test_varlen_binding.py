"""attention_varlen: every field of a launch, prepared launches found again, and bad input refused by name. No GPU, no torch."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import standin_torch as torch

ROWS, KEYS, HEADS, KV_HEADS, D, BATCH = 50, 90, 4, 2, 64, 3
OTHER = torch.Device("cuda", 1)


def starts(count: int = BATCH + 1, dtype: torch.Dtype = torch.int32) -> torch.Tensor:
    return torch.empty(count, dtype=dtype)


def ragged(**changes: Any) -> dict[str, Any]:
    q, k, v = (torch.empty(rows, heads, D) for rows, heads in ((ROWS, HEADS), (KEYS, KV_HEADS), (KEYS, KV_HEADS)))
    return {"q": q, "k": k, "v": v, "cu_seqlens_q": starts(), "cu_seqlens_k": starts(), **changes}


def test_every_field_of_a_launch(bound: Any) -> None:
    wide = torch.Tensor((KEYS, KV_HEADS, D), (D, KEYS * D, 1))
    given = ragged(k=wide, seqused_q=starts(BATCH), seqused_k=starts(BATCH), causal=True, scale=0.5, max_ctas=9)
    out, lse = bound.flashcore.attention_varlen(**given, return_lse=True)
    ((name, call),) = bound.kernels.calls
    assert name == "flashcore_attention_varlen"
    assert (call.size, call.device, call.dtype, call.causal, call.max_ctas, call.scale) == (ctypes.sizeof(call), 0, 0, 1, 9, 0.5)
    assert (call.batch, call.heads, call.kv_heads, call.total_q, call.total_k, call.head_dim) == (BATCH, 4, 2, ROWS, KEYS, D)
    assert (call.k.data, call.k.sequence_stride, call.k.head_stride) == (wide.address, D, KEYS * D)
    assert (call.v.sequence_stride, call.v.head_stride) == (KV_HEADS * D, D)
    assert [getattr(call, field) for field in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k")] == [
        given[field].address for field in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k")
    ]
    assert (call.q.data, call.v.data, call.out.data, call.lse) == (
        given["q"].address,
        given["v"].address,
        out.address,
        lse.address,
    )
    assert (out.shape, lse.shape, lse.dtype) == ((ROWS, HEADS, D), (HEADS, ROWS), torch.float32)
    assert (call.stream, call.workspace_bytes) == (7, 4096)
    assert call.workspace


def test_what_is_not_given_is_null_and_a_launch_is_prepared_once(bound: Any) -> None:
    import flashcore._varlen as module

    for _ in range(2):
        bound.flashcore.attention_varlen(**ragged())
    bound.flashcore.attention_varlen(**ragged(causal=True))
    calls = [call for _, call in bound.kernels.calls]
    assert {(call.seqused_q, call.seqused_k, call.lse) for call in calls} == {(None, None, None)}
    assert [call.causal for call in calls] == [0, 0, 1]
    assert calls[0].q.data != calls[1].q.data
    assert len(module._ENTRY.launches) == 2


BAD: list[tuple[str, dict[str, Any]]] = [
    (r"^q: must have 3 dimensions \(rows, heads, head dimension\), has 4", ragged(q=torch.empty(1, ROWS, HEADS, D))),
    (r"^q: must be on the CUDA device of q, is on", ragged(q=torch.empty(ROWS, HEADS, D, device=torch.Device("cpu")))),
    (r"^q: must be float16 or bfloat16", ragged(q=torch.empty(ROWS, HEADS, D, dtype=torch.float32))),
    (
        r"^q, k, v: one of them requires a gradient",
        ragged(q=torch.Tensor((ROWS, HEADS, D), (HEADS * D, D, 1), requires_grad=True)),
    ),
    (r"^k: the head dimension must be 64 as q's, is 128", ragged(k=torch.empty(KEYS, 2, 128), v=torch.empty(KEYS, 2, 128))),
    (r"^k: the head dimension must be contiguous", ragged(k=torch.Tensor((KEYS, 2, D), (256, 128, 2)))),
    (r"^v: \(rows, heads, head_dim\) must be \(90, 2, 64\), is \(89,", ragged(v=torch.empty(KEYS - 1, KV_HEADS, D))),
    (r"^v: must be float16 or bfloat16 like q", ragged(v=torch.empty(KEYS, KV_HEADS, D, dtype=torch.bfloat16))),
    (r"^out: \(rows, heads, head_dim\) must be \(50, 4, 64\)", ragged(out=torch.empty(ROWS, HEADS, 128))),
    (r"^out: elements share memory", ragged(out=torch.Tensor((ROWS, HEADS, D), (0, D, 1)))),
    (r"^lse: must be contiguous torch.float32 of shape \(4, 50\)", ragged(lse=torch.empty(ROWS, HEADS, dtype=torch.float32))),
    (r"^cu_seqlens_q: must have shape \(batch \+ 1,\), is", ragged(cu_seqlens_q=torch.empty(2, 2, dtype=torch.int32))),
    (r"^cu_seqlens_q: must have shape \(batch \+ 1,\), is", ragged(cu_seqlens_q=starts(0))),
    (r"^cu_seqlens_q: must be contiguous torch.int32", ragged(cu_seqlens_q=starts(dtype=torch.int64))),
    (r"^cu_seqlens_k: must be contiguous torch.int32 of shape \(4,\)", ragged(cu_seqlens_k=starts(BATCH))),
    (r"^seqused_q: must be contiguous torch.int32 of shape \(3,\)", ragged(seqused_q=starts())),
    (r"^seqused_k: must be on the CUDA device", ragged(seqused_k=torch.empty(BATCH, dtype=torch.int32, device=OTHER))),
]


@pytest.mark.parametrize(("message", "given"), BAD)
def test_bad_input_is_refused_by_name_before_any_launch(bound: Any, message: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        bound.flashcore.attention_varlen(**given)
    assert "\n" not in str(raised.value)
    assert bound.kernels.calls == []
