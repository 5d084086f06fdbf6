"""Appends of many queries, to pages and to sequences of a larger cache, on a Hopper GPU. Bits are those of a cache written before."""

from __future__ import annotations

from typing import Any

import pytest
from operator_cases import draw

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("size", [1, 16, 48, 128])
@pytest.mark.parametrize("queries", [1, 5, 20])
@pytest.mark.parametrize("packed", [False, True])
def test_an_append_to_pages_equals_a_cache_written_before(flashcore: Any, size: int, queries: int, *, packed: bool) -> None:
    import torch

    batch, width = 3, 384 // size
    table = torch.randperm(batch * width, device="cuda").to(torch.int32).view(batch, width)
    pool = [draw(batch * width, size, 2, 128, seed=i) for i in (1, 2)]
    lengths = torch.tensor([0, 100, 250], dtype=torch.int32, device="cuda")
    q, k, v = (draw(batch, queries, heads, 128, seed=i) for i, heads in ((3, 8), (4, 2), (5, 2)))
    starts = torch.arange(0, batch * queries + 1, queries, dtype=torch.int32, device="cuda")
    written = [cache.clone() for cache in pool]
    for cache, rows in zip(written, (k, v), strict=True):
        for i, length in enumerate(lengths.tolist()):
            for j in range(queries):
                cache[table[i, (length + j) // size], (length + j) % size] = rows[i, j]
    options: dict[str, Any] = {"page_table": table, "causal": True, "return_softmax_lse": True}
    if packed:
        q, k, v = (tensor.flatten(0, 1) for tensor in (q, k, v))
        options |= {"cu_seqlens_q": starts, "max_seqlen_q": queries}
    expected = flashcore.flash_attn_with_kvcache(q, *written, cache_seqlens=lengths + queries, **options)
    new = {"cu_seqlens_k_new": starts} if packed else {}
    actual = flashcore.flash_attn_with_kvcache(q, *pool, k, v, cache_seqlens=lengths, **new, **options)
    assert all(map(torch.equal, pool, written))
    assert all(map(torch.equal, expected, actual))


@pytest.mark.parametrize("queries", [1, 40])
def test_an_index_chooses_the_sequences_of_a_cache(flashcore: Any, queries: int) -> None:
    import torch

    caches = [draw(7, 300, 2, 128, seed=i) for i in (1, 2)]
    index = torch.tensor([5, 0, 3], dtype=torch.int32, device="cuda")
    q, lengths = draw(3, queries, 8, 128), torch.tensor([300, 77, 128], dtype=torch.int32, device="cuda")
    chosen = [cache[index.long()] for cache in caches]
    expected = flashcore.flash_attn_with_kvcache(q, *chosen, cache_seqlens=lengths, causal=True)
    actual = flashcore.flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, cache_batch_idx=index, causal=True)
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-3)
