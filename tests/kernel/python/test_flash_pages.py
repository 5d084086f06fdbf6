"""FlashAttention-3's function over pages: what the decode kernel cannot read is a varlen prefill."""

from __future__ import annotations

from typing import Any

import pytest
import standin_torch as torch

LENGTHS, TABLE = torch.empty(3, dtype=torch.int32), torch.empty(3, 5, dtype=torch.int32)
STARTS = torch.empty(4, dtype=torch.int32)
SEPARATE = torch.Tensor((3, 100, 2, 64), (30_000, 128, 64, 1))


@pytest.mark.parametrize(
    ("queries", "page", "changes"),
    [(17, 64, {}), (1, 48, {}), (16, 1, {}), (20, 100, {"page_table": None, "cache_seqlens": LENGTHS})],
)
def test_what_decode_cannot_read_from_pages_is_a_varlen_prefill(bindings: Any, queries: int, page: int, changes: Any) -> None:
    """Many queries, other page sizes, and sequences of a cache that are not adjacent, each as one page."""
    pool = SEPARATE if changes else torch.empty(40, page, 2, 64)
    options = {"page_table": TABLE, "cache_seqlens": 44, **changes}
    q = torch.empty(3, queries, 4, 64)
    out, lse = bindings.flashcore.flash_attn_with_kvcache(q, pool, pool, **options, causal=True, return_softmax_lse=True)
    ((name, call),) = bindings.kernels.calls
    assert (name, call.page_size, call.pages, call.batch, call.total_q) == (
        "flashcore_attention_varlen", page, pool.shape[0], 3, 3 * queries,
    )  # fmt: skip
    assert (call.table_width, call.k.batch_stride) == ((1, 30_000) if changes else (5, page * 128))
    assert call.seqused_k
    assert call.page_table
    assert (out.shape, lse.shape) == ((3, queries, 4, 64), (3, 4, queries))


def test_packed_queries_over_a_cache(bindings: Any) -> None:
    """vLLM's call: chunks of prompts and single tokens together, over pages."""
    q, pool = torch.empty(50, 4, 64), torch.empty(40, 16, 2, 64)
    out, lse = bindings.flashcore.flash_attn_with_kvcache(
        q, pool, pool, cache_seqlens=LENGTHS, page_table=TABLE, cu_seqlens_q=STARTS, max_seqlen_q=40, return_softmax_lse=True
    )
    ((name, call),) = bindings.kernels.calls
    assert (name, call.page_size, call.total_q, call.cu_seqlens_q) == ("flashcore_attention_varlen", 16, 50, STARTS.address)
    assert (call.seqused_k, call.page_table, call.cu_seqlens_k) == (LENGTHS.address, TABLE.address, None)
    assert (out.shape, lse.shape) == ((50, 4, 64), (4, 50))
