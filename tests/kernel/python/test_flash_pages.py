"""FlashAttention-3's function over pages: what the decode kernel cannot read is a varlen prefill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpu_subjects
import pytest
import standin_torch as torch

from flashcore_ci.suite.loader import load

ROOT = Path(__file__).resolve().parents[3]

LENGTHS, TABLE = torch.empty(3, dtype=torch.int32), torch.empty(3, 5, dtype=torch.int32)
STARTS = torch.empty(4, dtype=torch.int32)
SEPARATE = torch.Tensor((3, 100, 2, 64), (30_000, 128, 64, 1))


@pytest.mark.parametrize(
    ("queries", "page", "changes"),
    [(17, 64, {}), (17, 1, {}), (20, 100, {"page_table": None, "cache_seqlens": LENGTHS})],
)
def test_what_decode_cannot_read_from_pages_is_a_varlen_prefill(bindings: Any, queries: int, page: int, changes: Any) -> None:
    """Many queries, and sequences of a cache that are not adjacent, each as one page."""
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


def attend(bindings: Any, rows: int, page: int, longest: int | None, **changes: Any) -> list[tuple[str, Any]]:
    """Call with three packed sequences, and return the launches."""
    heads, dim = changes.pop("heads", 4), changes.pop("dim", 64)
    q, pool = torch.empty(rows, heads, dim), torch.empty(40, page, 2, dim)
    options = {"cache_seqlens": LENGTHS, "page_table": TABLE, "cu_seqlens_q": STARTS, "max_seqlen_q": longest, **changes}
    out, lse = bindings.flashcore.flash_attn_with_kvcache(q, pool, pool, **options, causal=True, return_softmax_lse=True)
    assert (out.shape, lse.shape) == ((rows, heads, dim), (heads, rows))
    calls: list[tuple[str, Any]] = bindings.kernels.calls
    assert {(call.out.data, call.lse) for _, call in calls} == {(out.data_ptr(), lse.data_ptr())}
    return calls


@pytest.mark.parametrize("longest", [40, None])
@pytest.mark.parametrize("page", [1, 8, 16, 32, 48, 1024])
def test_a_mixed_batch_is_a_decode_and_a_prefill(bindings: Any, page: int, longest: int | None) -> None:
    """vLLM's call: chunks of prompts and single tokens together, over pages. Each launch leaves the other's sequences alone."""
    (decode_name, decode), (name, call) = attend(bindings, 50, page, longest)
    assert (decode_name, name) == ("flashcore_decode", "flashcore_attention_varlen")
    assert (decode.sq, decode.total_q, decode.batch, call.min_queries, call.total_q) == (16, 50, 3, 17, 50)
    for one in (decode, call):
        assert (one.page_size, one.table_width, one.cu_seqlens_q, one.page_table) == (page, 5, STARTS.address, TABLE.address)
    assert (decode.lengths, call.seqused_k, call.cu_seqlens_k) == (LENGTHS.address, LENGTHS.address, None)


@pytest.mark.parametrize("longest", [1, 5, 16])
def test_packed_queries_that_are_all_few_are_one_decode(bindings: Any, longest: int) -> None:
    ((name, call),) = attend(bindings, 16, 16, longest)
    assert (name, call.sq, call.total_q) == ("flashcore_decode", longest, 16)


@pytest.mark.parametrize(
    ("rows", "page", "changes"),
    [(60, 16, {"longest": 20}), (50, 16, {"heads": 512}), (50, 16, {"heads": 512, "longest": 1})],
)
def test_what_decode_cannot_do_or_never_meets_is_one_prefill(bindings: Any, rows: int, page: int, changes: Any) -> None:
    """Equally many queries, and too many heads per KV head."""
    ((name, call),) = attend(bindings, rows, page, changes.pop("longest", 40), **changes)
    assert (name, call.min_queries, call.total_q) == ("flashcore_attention_varlen", 0, rows)


def test_no_row_of_attention_launches_decode_whose_library_its_digests_do_not_cover(bindings: Any) -> None:
    varlen = gpu_subjects.load("varlen")
    rows = [dict(row.params) for row in load(ROOT / "gates/hopper.toml", root=ROOT).workloads if row.subject == "attention"]
    paged = [row for row in rows if row.get("flash") and row.get("page")]
    assert paged
    for row in paged:
        queries = [queries for queries, _ in varlen.LENGTHS[row["lengths"]](row)]
        q, pool = torch.empty(sum(queries), row["h"], row["d"]), torch.empty(40, row["page"], row["hkv"], row["d"])
        lengths, starts, table = (
            torch.empty(size, dtype=torch.int32) for size in ((len(queries),), (len(queries) + 1,), (len(queries), 5))
        )
        bindings.flashcore.flash_attn_with_kvcache(
            q, pool, pool, cache_seqlens=lengths, page_table=table, cu_seqlens_q=starts, max_seqlen_q=sum(queries), causal=True
        )
    assert [name for name, _ in bindings.kernels.calls] == ["flashcore_attention_varlen"] * len(paged)


@pytest.mark.parametrize(
    ("heads", "dim", "short"), [(4, 128, 16), (32, 64, 8), (64, 128, 4), (8, 256, 16), (32, 256, 4), (256, 64, 1)]
)
def test_few_queries_fit_in_one_work_tile(bindings: Any, heads: int, dim: int, short: int) -> None:
    (_, decode), (_, call) = attend(bindings, 50, 16, 40, heads=heads, dim=dim)
    assert (decode.sq, call.min_queries) == (short, short + 1)


@pytest.mark.parametrize("window", [(-1, -1), (30, 0)])
@pytest.mark.parametrize("page", [1, 7, 8, 16, 32, 48, 528, 1024])
def test_equal_queries_over_pages_of_any_size_are_a_decode(bindings: Any, page: int, window: tuple[int, int]) -> None:
    """Keys that are copied one by one need packed queries."""
    q, pool = torch.empty(3, 2, 4, 64), torch.empty(40, page, 2, 64)
    out, lse = bindings.flashcore.flash_attn_with_kvcache(
        q, pool, pool, cache_seqlens=LENGTHS, page_table=TABLE, window_size=window, return_softmax_lse=True
    )
    ((name, call),) = bindings.kernels.calls
    assert (name, call.sq, call.total_q, call.page_size) == ("flashcore_decode", 2, 6 if page in {1, 7, 8, 48, 528} else 0, page)
    assert (out.shape, lse.shape) == ((3, 2, 4, 64), (3, 4, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.empty(50, 4, 36)}, r"^q: must be \(at least 1 row, heads, a multiple of 8 up to 256\), is \(50, 4, 36\)$"),
        ({"q": torch.empty(3, 50, 4, 64)}, "^q: must have 3 dimensions"),
        ({"k": torch.empty(40, 16, 2, 128)}, r"^k: must have shape \(40, 16, 2, 64\)"),
        ({"v": torch.empty(40, 16, 1, 64)}, r"^v: must have shape \(40, 16, 2, 64\)"),
        ({"out": torch.empty(51, 4, 64)}, r"^out: must have shape \(50, 4, 64\)"),
        ({"cu_seqlens_q": torch.empty(4, 1, dtype=torch.int32)}, r"^cu_seqlens_q: must have shape \(batch \+ 1,\)"),
        ({"cu_seqlens_q": torch.empty(4)}, "^cu_seqlens_q: must be contiguous torch.int32"),
        ({"seqused_q": torch.empty(4, dtype=torch.int32)}, r"^seqused_q: must be contiguous torch.int32 of shape \(3,\)"),
        ({"lengths": torch.empty(2, dtype=torch.int32)}, r"^lengths: must be contiguous torch.int32 of shape \(3,\)"),
        ({"page_table": None}, "^k: must have 3 sequences as cu_seqlens_q, has 40"),
        ({"max_queries": "two"}, "^max_queries: must be a whole number"),
    ],
)
def test_bad_packed_queries_are_named(bindings: Any, changes: Any, message: str) -> None:
    pool = torch.empty(40, 16, 2, 64)
    arguments = {
        "q": torch.empty(50, 4, 64),
        "k": pool,
        "v": pool,
        "cu_seqlens_q": STARTS,
        "page_table": TABLE,
        "lengths": LENGTHS,
    }
    with pytest.raises(ValueError, match=message):
        bindings.flashcore.decode_varlen(**{**arguments, **changes})
    assert not bindings.kernels.calls
