"""Chunks of prompts and single tokens in one call over pages, on a Hopper GPU: short sequences run as decode, the others as prefill."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from test_paged import MARK, Case, compute_exactly, compute_packed, make_case, make_int32  # noqa: E402 - needs torch

pytestmark = pytest.mark.gpu

BATCH = [
    (1, 700),
    (0, 5),
    (200, 333),
    (5, 64),
    (16, 129),
    (17, 0),
    (3, 0),
    (130, 2500),
    (1, 1),
    (16, 3),
    (4, 2),
    (193, 129),
    (1, 5000),
]
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def list_rows(case: Case, low: int, high: int) -> Any:
    """Return a mask of the rows whose sequences have from ``low`` to ``high`` queries."""
    return torch.cat([torch.full((sq,), low <= sq <= high, device="cuda") for sq, _ in case.lengths])


def find_wrong(case: Case, arguments: dict[str, Any], keys: Any, result: tuple[Any, Any], rows: Any) -> str:
    """Compare these rows with the formula in float64."""
    (out, lse), (right, right_lse) = result, compute_exactly(arguments, keys)
    error = float(((out - right).abs() / (1 + right.abs()))[rows].max())
    difference = float(torch.nan_to_num((lse - right_lse)[:, rows]).abs().max())
    same_infinities = torch.equal(lse[:, rows].isinf(), right_lse[:, rows].isinf())
    return "" if error < LIMITS[case.dtype] and difference < 1e-3 and same_infinities else f"errors {error} and {difference}"


def attend(flashcore: Any, arguments: dict[str, Any], longest: int | None = None) -> tuple[Any, Any]:
    """Call FlashAttention-3's function. It has no limit of blocks."""
    return flashcore.flash_attn_with_kvcache(
        arguments["q"], arguments["k"], arguments["v"], cache_seqlens=arguments["seqused_k"], page_table=arguments["page_table"],
        cu_seqlens_q=arguments["cu_seqlens_q"], max_seqlen_q=longest, causal=arguments["causal"], return_softmax_lse=True,
    )  # fmt: skip


def find_difference(flashcore: Any, case: Case, short: int) -> str:
    """Return what is wrong with a mixed batch, or an empty string."""
    arguments, keys = make_case(case)
    out, lse = attend(flashcore, arguments)
    longest = max(sq for sq, _ in case.lengths) + 3
    again, again_lse = attend(
        flashcore, arguments, longest if longest > short + 3 else None
    )  # a short bound splits keys in another way
    if not torch.equal(out, again) or not torch.equal(lse, again_lse):
        return "the second call gives other bits"
    packed, packed_lse = compute_packed(flashcore, arguments, keys)
    few, many = list_rows(case, 1, short), list_rows(case, short + 1, 2**30)
    if not torch.equal(out[many], packed[many]) or not torch.equal(lse[:, many], packed_lse[:, many]):
        return "rows of the prefill have other bits than packed rows"
    return find_wrong(case, arguments, keys, (out, lse), few) if bool(few.any()) else ""


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "dtype"), list(itertools.product((64, 128, 256), (torch.float16, torch.bfloat16))))
@pytest.mark.parametrize(("page", "h", "hkv"), [(16, 4, 2), (32, 8, 1), (64, 3, 3), (256, 64, 1), (1024, 14, 2)])
def test_a_mixed_batch(flashcore: Any, page: int, h: int, hkv: int, d: int, dtype: Any, causal: bool) -> None:
    limit = 64 if d == 256 else 128  # rows of a work tile
    case = Case(lengths=BATCH, page=page, h=h, hkv=hkv, d=d, dtype=dtype, causal=causal)
    assert find_difference(flashcore, case, min(16, limit * hkv // h)) == ""


@pytest.mark.parametrize("layout", ["hnd", "interleaved", "gaps"])
@pytest.mark.parametrize("max_queries", [1, 5, 16])
def test_only_short_sequences_are_written(flashcore: Any, max_queries: int, layout: str) -> None:
    case = Case(lengths=BATCH, page=16, d=128, layout=layout)
    arguments, keys = make_case(case)
    out, lse = torch.full_like(arguments["q"], MARK), torch.full((case.h, len(arguments["q"])), MARK, device="cuda")
    options = {"page_table": arguments["page_table"], "lengths": arguments["seqused_k"], "causal": True, "out": out, "lse": lse}
    for max_ctas in (0, 1, 3, 17):
        out.fill_(MARK)
        lse.fill_(MARK)
        flashcore.decode_varlen(
            *(arguments[name] for name in ("q", "k", "v", "cu_seqlens_q")), max_queries=max_queries, max_ctas=max_ctas, **options
        )
        few = list_rows(case, 1, max_queries)
        assert find_wrong(case, arguments, keys, (out, lse), few) == ""
        assert bool((out[~few] == MARK).all())
        assert bool((lse[:, ~few] == MARK).all())


def test_only_long_sequences_are_written_by_the_prefill(flashcore: Any) -> None:
    case = Case(lengths=BATCH, page=16)
    arguments, keys = make_case(case)
    packed, _ = compute_packed(flashcore, arguments, keys)
    for least in (2, 17, 1000):
        out = torch.full_like(arguments["q"], MARK)
        flashcore.attention_varlen(**arguments, out=out, min_queries=least)
        many = list_rows(case, least, 2**30)
        assert torch.equal(out[many], packed[many])
        assert bool((out[~many] == MARK).all())


@pytest.mark.parametrize("count", [1, 31, 33, 300, 1500])
def test_many_sequences(flashcore: Any, count: int) -> None:
    """More than one sequence per lane of the producer, most of them left out, or none."""
    for every in (1, 7):
        lengths = [(1 + i % 5 if i % every == 0 else 20, (i * 37) % 400) for i in range(count)]
        assert find_difference(flashcore, Case(lengths=lengths, page=16, d=64), 16) == ""


def test_used_queries_decide(flashcore: Any) -> None:
    """A sequence of many rows of which few count is short. Its other rows keep their mark."""
    case = Case(lengths=[(40, 300), (16, 200), (30, 77)], page=16, d=128)
    arguments, _ = make_case(case)
    used = make_int32(3, 0, 30)
    out, lse = torch.full_like(arguments["q"], MARK), torch.full((case.h, 86), MARK, device="cuda")
    flashcore.decode_varlen(
        *(arguments[name] for name in ("q", "k", "v", "cu_seqlens_q")), seqused_q=used, page_table=arguments["page_table"],
        lengths=arguments["seqused_k"], causal=True, out=out, lse=lse,
    )  # fmt: skip
    assert bool((out[3:] == MARK).all())
    short = {**arguments, "seqused_q": used}
    right = flashcore.attention_varlen(**short)
    assert torch.allclose(out[:3].float(), right[:3].float(), atol=2e-3)


def test_a_graph_is_replayed_with_other_lengths(flashcore: Any) -> None:
    """Prefill becomes decode and the other way round. Padded rows keep their mark."""
    first, second = [(1, 700), (150, 333), (5, 65), (1, 9)], [(90, 100), (2, 800), (17, 40), (16, 16)]
    cases = [make_case(Case(lengths=lengths, page=16, d=128, seed=seed)) for seed, lengths in enumerate((first, second))]
    rows = max(len(arguments["q"]) for arguments, _ in cases) + 7
    pool = [torch.full((200, 16, 2, 128), math.nan, device="cuda", dtype=torch.float16) for _ in range(2)]
    table = torch.full((6, 64), -1, dtype=torch.int32, device="cuda")
    fixed = {
        "q": torch.zeros((rows, 4, 128), device="cuda", dtype=torch.float16),
        "k": pool[0],
        "v": pool[1],
        "page_table": table,
    }
    fixed |= {"cu_seqlens_q": torch.zeros(7, dtype=torch.int32, device="cuda"), "causal": True}
    fixed["seqused_k"] = torch.zeros(6, dtype=torch.int32, device="cuda")
    attend(flashcore, fixed)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, _ = attend(flashcore, fixed, 200)
    for arguments, keys in (*cases, cases[0]):
        total, pages = len(arguments["q"]), len(arguments["k"])
        starts = arguments["cu_seqlens_q"].tolist()
        fixed["q"][:total] = arguments["q"]
        for name, memory in zip(("k", "v"), pool, strict=True):
            memory[:pages] = arguments[name]
        table.fill_(2**31 - 1)
        table[:4, : arguments["page_table"].shape[1]] = arguments["page_table"]
        fixed["cu_seqlens_q"].copy_(make_int32(*starts, total, total))
        fixed["seqused_k"].copy_(make_int32(*arguments["seqused_k"].tolist(), 700, -5))
        out.fill_(MARK)
        graph.replay()
        expected, _ = compute_exactly(arguments, keys)
        assert float((out[:total] - expected).abs().max()) < 2e-3
        assert bool((out[total:] == MARK).all())


@pytest.mark.parametrize(
    "starts", [(0, 5, 3, 60), (7, 7, 7, 7), (-5, 20, 2**31 - 1, 64), (64, 0, 64, 0), (0, -(2**31), 2**31 - 1, 1)]
)
def test_wrong_starts_stay_within_the_rows(flashcore: Any, starts: tuple[int, ...]) -> None:
    memory = torch.full((128, 2, 64), MARK, device="cuda", dtype=torch.float16)
    q = torch.randn((64, 2, 64), device="cuda", dtype=torch.float16)
    pool, table = (
        torch.randn((9, 16, 2, 64), device="cuda", dtype=torch.float16),
        torch.zeros((3, 5), dtype=torch.int32, device="cuda"),
    )
    flashcore.decode_varlen(
        q, pool, pool, make_int32(*starts), page_table=table, lengths=make_int32(70, 2**31 - 1, -9), out=memory[32:96]
    )
    torch.cuda.synchronize()
    assert bool((memory[:32] == MARK).all())
    assert bool((memory[96:] == MARK).all())
    assert bool(memory.isfinite().all())
