"""attention_varlen: the fields of a launch, stored launches, and bad input. No GPU, no torch."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import standin_torch as torch

ROWS, KEYS, HEADS, KV_HEADS, D, BATCH = 50, 90, 4, 2, 64, 3
OTHER = torch.Device("cuda", 1)


def make_starts(count: int = BATCH + 1, dtype: torch.Dtype = torch.int32) -> torch.Tensor:
    return torch.empty(count, dtype=dtype)


def make_ragged(**changes: Any) -> dict[str, Any]:
    q, k, v = (torch.empty(rows, heads, D) for rows, heads in ((ROWS, HEADS), (KEYS, KV_HEADS), (KEYS, KV_HEADS)))
    return {"q": q, "k": k, "v": v, "cu_seqlens_q": make_starts(), "cu_seqlens_k": make_starts(), **changes}


def make_paged(**changes: Any) -> dict[str, Any]:
    pool, table = torch.empty(40, 16, KV_HEADS, D), torch.empty(BATCH, 7, dtype=torch.int32)
    return make_ragged(
        **{"k": pool, "v": pool, "cu_seqlens_k": None, "page_table": table, "seqused_k": make_starts(BATCH), **changes}
    )


def test_fields_of_a_launch_over_pages(bindings: Any) -> None:
    by_heads = torch.Tensor((40, 16, KV_HEADS, D), (9000, D, 16 * D, 1))
    arguments = make_paged(k=by_heads)
    bindings.flashcore.attention_varlen(**arguments)
    ((_, call),) = bindings.kernels.calls
    assert (call.page_size, call.pages, call.table_width, call.table_stride, call.total_k) == (16, 40, 7, 7, 0)
    assert (call.k.batch_stride, call.k.sequence_stride, call.k.head_stride) == (9000, D, 16 * D)
    assert (call.page_table, call.seqused_k) == (arguments["page_table"].address, arguments["seqused_k"].address)
    assert call.cu_seqlens_k is None


def test_fields_of_a_launch(bindings: Any) -> None:
    by_heads = torch.Tensor((KEYS, KV_HEADS, D), (D, KEYS * D, 1))
    arguments = make_ragged(
        k=by_heads, seqused_q=make_starts(BATCH), seqused_k=make_starts(BATCH), causal=True, scale=0.5, max_ctas=9
    )
    out, lse = bindings.flashcore.attention_varlen(**arguments, return_lse=True)
    ((name, call),) = bindings.kernels.calls
    assert name == "flashcore_attention_varlen"
    assert (call.size, call.device, call.dtype, call.causal, call.max_ctas, call.scale) == (ctypes.sizeof(call), 0, 0, 1, 9, 0.5)
    assert (call.batch, call.heads, call.kv_heads, call.total_q, call.total_k, call.head_dim) == (BATCH, 4, 2, ROWS, KEYS, D)
    assert (call.k.data, call.k.sequence_stride, call.k.head_stride) == (by_heads.address, D, KEYS * D)
    assert (call.v.sequence_stride, call.v.head_stride) == (KV_HEADS * D, D)
    assert [getattr(call, field) for field in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k")] == [
        arguments[field].address for field in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k")
    ]
    assert (call.q.data, call.v.data, call.out.data, call.lse) == (
        arguments["q"].address,
        arguments["v"].address,
        out.address,
        lse.address,
    )
    assert (out.shape, lse.shape, lse.dtype) == ((ROWS, HEADS, D), (HEADS, ROWS), torch.float32)
    assert (call.stream, call.workspace_bytes) == (7, 4096)
    assert call.workspace


def test_missing_tensors_are_null_and_a_launch_is_prepared_once(bindings: Any) -> None:
    import flashcore._varlen as module

    for _ in range(2):
        bindings.flashcore.attention_varlen(**make_ragged())
    bindings.flashcore.attention_varlen(**make_ragged(causal=True))
    calls = [call for _, call in bindings.kernels.calls]
    assert {(call.seqused_q, call.seqused_k, call.lse) for call in calls} == {(None, None, None)}
    assert [call.causal for call in calls] == [0, 0, 1]
    assert calls[0].q.data != calls[1].q.data
    assert len(module._ENTRY.launches) == 2


BAD_ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    (r"^q: must have 3 dimensions \(rows, heads, head dimension\), has 4", make_ragged(q=torch.empty(1, ROWS, HEADS, D))),
    (r"^q: must be on the CUDA device of q, is on", make_ragged(q=torch.empty(ROWS, HEADS, D, device=torch.Device("cpu")))),
    (r"^q: must be float16 or bfloat16", make_ragged(q=torch.empty(ROWS, HEADS, D, dtype=torch.float32))),
    (
        r"^q, k, v: one of them requires a gradient",
        make_ragged(q=torch.Tensor((ROWS, HEADS, D), (HEADS * D, D, 1), requires_grad=True)),
    ),
    (r"^k: the head dimension must be 64 as q's, is 128", make_ragged(k=torch.empty(KEYS, 2, 128), v=torch.empty(KEYS, 2, 128))),
    (r"^k: the head dimension must be contiguous", make_ragged(k=torch.Tensor((KEYS, 2, D), (256, 128, 2)))),
    (r"^v: \(rows, heads, head_dim\) must be \(90, 2, 64\), is \(89,", make_ragged(v=torch.empty(KEYS - 1, KV_HEADS, D))),
    (r"^v: must be float16 or bfloat16 like q", make_ragged(v=torch.empty(KEYS, KV_HEADS, D, dtype=torch.bfloat16))),
    (r"^out: \(rows, heads, head_dim\) must be \(50, 4, 64\)", make_ragged(out=torch.empty(ROWS, HEADS, 128))),
    (r"^out: elements share memory", make_ragged(out=torch.Tensor((ROWS, HEADS, D), (0, D, 1)))),
    (
        r"^lse: must be contiguous torch.float32 of shape \(4, 50\)",
        make_ragged(lse=torch.empty(ROWS, HEADS, dtype=torch.float32)),
    ),
    (r"^cu_seqlens_q: must have shape \(batch \+ 1,\), is", make_ragged(cu_seqlens_q=torch.empty(2, 2, dtype=torch.int32))),
    (r"^cu_seqlens_q: must have shape \(batch \+ 1,\), is", make_ragged(cu_seqlens_q=make_starts(0))),
    (r"^cu_seqlens_q: must be contiguous torch.int32", make_ragged(cu_seqlens_q=make_starts(dtype=torch.int64))),
    (r"^cu_seqlens_k: must be contiguous torch.int32 of shape \(4,\)", make_ragged(cu_seqlens_k=make_starts(BATCH))),
    (r"^cu_seqlens_k: is missing", make_ragged(cu_seqlens_k=None)),
    (r"^cu_seqlens_k: must be None with a page table", make_paged(cu_seqlens_k=make_starts())),
    (r"^page_table: must be int32 of shape \(3, pages", make_paged(page_table=torch.empty(2, 7, dtype=torch.int32))),
    (r"^k: must have 4 dimensions \(pages, keys, heads", make_paged(k=torch.empty(KEYS, 2, D))),
    (r"^v: \(pages, keys, heads, head dimension\) must be \(40, 16, 2, 64\)", make_paged(v=torch.empty(40, 16, 1, D))),
    (r"^k: pages must hold at least 1 key", make_paged(k=torch.empty(40, 0, 2, D), v=torch.empty(40, 0, 2, D))),
    (r"^seqused_q: must be contiguous torch.int32 of shape \(3,\)", make_ragged(seqused_q=make_starts())),
    (r"^seqused_k: must be on the CUDA device", make_ragged(seqused_k=torch.empty(BATCH, dtype=torch.int32, device=OTHER))),
]


@pytest.mark.parametrize(("message", "arguments"), BAD_ARGUMENTS)
def test_bad_input_is_named_before_any_launch(bindings: Any, message: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        bindings.flashcore.attention_varlen(**arguments)
    assert "\n" not in str(raised.value)
    assert bindings.kernels.calls == []
