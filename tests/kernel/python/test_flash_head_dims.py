"""Head dimensions other than 64, 128 and 256 over a cache: which kernel serves them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import standin_torch as torch

LENGTHS = torch.empty(3, dtype=torch.int32)
TABLE = torch.empty(3, 5, dtype=torch.int32)
STARTS = torch.empty(4, dtype=torch.int32)


@pytest.mark.parametrize(("queries", "d"), [(1, 96), (16, 8), (4, 192)])
def test_other_head_dimensions_over_a_cache_are_a_decode(bindings: Any, queries: int, d: int) -> None:
    q, cache, new = torch.empty(3, queries, 4, d), torch.empty(3, 64, 2, d), torch.empty(3, 5, 2, d)
    lengths, table = torch.empty(3, dtype=torch.int32), torch.empty(3, 5, dtype=torch.int32)
    small, kvcache = torch.empty(40, 8, 2, d), bindings.flashcore.flash_attn_with_kvcache
    kvcache(q, cache, cache, causal=True)
    kvcache(q, cache, cache, new, new, cache_seqlens=lengths)
    kvcache(q, cache, cache, new, new, cache_seqlens=lengths, page_table=table, window_size=(30, 0))
    kvcache(q, small, small, cache_seqlens=lengths, page_table=table)
    kvcache(q.flatten(0, 1), small, small, cache_seqlens=lengths, page_table=table, cu_seqlens_q=STARTS, max_seqlen_q=queries)
    calls = [call for name, call in bindings.kernels.calls if name == "flashcore_decode"]
    assert [(call.head_dim, call.page_size, call.total_q, call.new_keys) for call in calls] == [
        (d, 0, 0, 0), (d, 0, 0, 5), (d, 64, 0, 5), (d, 8, 3 * queries, 0), (d, 8, 3 * queries, 0)
    ]  # fmt: skip
    assert len(calls) == len(bindings.kernels.calls)
    assert calls[0].scale == pytest.approx(d**-0.5)


@pytest.mark.parametrize(("queries", "d"), [(17, 96), (40, 8), (20, 192)])
def test_many_queries_of_other_head_dimensions_over_a_cache_are_a_prefill(bindings: Any, queries: int, d: int) -> None:
    q, cache, new = torch.empty(3, queries, 4, d), torch.empty(3, 100, 2, d), torch.empty(3, 5, 2, d)
    lengths = torch.empty(3, dtype=torch.int32)
    bindings.flashcore.flash_attn_with_kvcache(q, cache, cache, causal=True)
    bindings.flashcore.flash_attn_with_kvcache(q, cache, cache, new, new, cache_seqlens=40, causal=True)
    bindings.flashcore.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=lengths, causal=True)
    names = [name for name, _ in bindings.kernels.calls]
    assert names == ["flashcore_attention_forward"] * 2 + ["flashcore_attention_varlen"]
    assert [call.sk for _, call in bindings.kernels.calls[:2]] == [100, 45]
    assert (slice(40, 45), new) in cache.written
    assert {call.head_dim for _, call in bindings.kernels.calls} == {d}


@pytest.mark.parametrize(
    ("q", "page", "options", "expected"),
    [
        (torch.empty(3, 17, 4, 96), 100, {"page_table": TABLE}, r"from 1 to 16, is 17, q has shape \(3, 17, 4, 96\)"),
        (torch.empty(9, 32, 192), 100, {"cu_seqlens_q": STARTS}, r"from 1 to 4, is None, q has shape \(9, 32, 192\)"),
        (
            torch.empty(9, 32, 192),
            8,
            {"cu_seqlens_q": STARTS, "page_table": TABLE, "max_seqlen_q": 5},
            "from 1 to 4, is 5, q has shape",
        ),
        (torch.empty(3, 9, 32, 80), 8, {"page_table": TABLE}, r"from 1 to 8, is 9, q has shape \(3, 9, 32, 80\)"),
    ],
)
def test_many_queries_over_pages_are_refused_before_an_append(
    bindings: Any, q: Any, page: int, options: Any, expected: str
) -> None:
    cache, new = torch.empty(3, page, 2, q.shape[-1]), torch.empty(3, 5, 2, q.shape[-1])
    message = rf"^page_table, cu_seqlens_q: a head dimension other than 64, 128, 256 needs a max_seqlen_q {expected}"
    with pytest.raises(NotImplementedError, match=message):
        bindings.flashcore.flash_attn_with_kvcache(q, cache, cache, new, new, cache_seqlens=LENGTHS, **options)
    assert bindings.kernels.calls == cache.written == []


@pytest.mark.parametrize("d", [16, 96, 240])
def test_caches_of_e4m3_take_multiples_of_16(bindings: Any, d: int) -> None:
    cache = torch.empty((3, 64, 2, d), dtype=torch.float8_e4m3fn)
    bindings.flashcore.flash_attn_with_kvcache(torch.empty(3, 1, 4, d), cache, cache)
    ((name, call),) = bindings.kernels.calls
    assert (name, call.head_dim, call.cache_dtype) == ("flashcore_decode", d, 2)
    other = torch.empty((3, 64, 2, d - 8), dtype=torch.float8_e4m3fn)
    with pytest.raises(
        NotImplementedError, match=r"^k_cache: a cache of E4M3 needs up to 16 queries .* that is a multiple of 16 up to 256"
    ):
        bindings.flashcore.flash_attn_with_kvcache(torch.empty(3, 1, 4, d - 8), other, other)
    with pytest.raises(ValueError, match=r"^q: must be \(batch, 1 to 16, heads, a multiple of 16 up to 256\)"):
        bindings.flashcore.decode(torch.empty(3, 1, 4, d - 8), other, other)
