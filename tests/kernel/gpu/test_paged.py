"""Packed queries over keys in pages on a Hopper GPU: the bits of the same keys in packed rows, whatever else the pages hold."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

MARK = 77.0
MIXED = [(0, 5), (1, 1), (17, 0), (200, 333), (1, 64), (193, 129), (1, 1000), (300, 3), (0, 0), (130, 2500), (5, 700), (1, 1)]
PAGES = (1, 2, 4, 8, 16, 20, 32, 48, 64, 128, 256, 528, 1024)
LAYOUTS = ("nhd", "hnd", "interleaved", "gaps")
WRONG_ENTRIES = (-1, 2**31 - 1, -(2**31), 10**6)


@dataclass(frozen=True, kw_only=True)
class Case:
    lengths: list[tuple[int, int]]
    page: int
    h: int = 4
    hkv: int = 2
    d: int = 64
    dtype: Any = torch.float16
    causal: bool = True
    layout: str = "nhd"
    max_ctas: int = 0
    seed: int = 0


def make_int32(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def make_pool(case: Case, count: int) -> tuple[Any, Any]:
    """Make two views (pages, keys, heads, d) of NaN."""
    page, hkv, d = case.page, case.hkv, case.d

    def fill(*shape: int) -> Any:
        return torch.full(shape, math.nan, dtype=case.dtype, device="cuda")

    if case.layout == "interleaved":
        both = fill(count, 2, page, hkv, d)
        return both[:, 0], both[:, 1]
    if case.layout == "hnd":
        return fill(count, hkv, page, d).transpose(1, 2), fill(count, hkv, page, d).transpose(1, 2)
    if case.layout == "gaps":  # other strides for keys than for values
        wide, tall = fill(count * (page + 1), hkv + 1, d + 8), fill(count, page, hkv, d)
        strides = ((page + 1) * (hkv + 1) * (d + 8) - (d + 8), (hkv + 1) * (d + 8), d + 8, 1)
        return wide.as_strided((count, page, hkv, d), strides), tall
    return fill(count, page, hkv, d), fill(count, page, hkv, d)


def make_case(case: Case) -> tuple[dict[str, Any], tuple[Any, Any]]:
    """Return the arguments, and keys and values in packed rows. Rows and entries that no key uses hold NaN and wrong numbers."""
    torch.manual_seed(case.seed)
    rng = random.Random(case.seed)
    queries, keys = zip(*case.lengths, strict=True)
    widths = [-(-sk // case.page) for sk in keys]
    count, width = sum(widths) + 3, max(widths) + rng.randint(0, 2)
    k_pool, v_pool = make_pool(case, count)
    order = iter(rng.sample(range(count), count))
    table = [[rng.choice(WRONG_ENTRIES) for _ in range(width)] for _ in keys]
    packed_k, packed_v = (torch.randn((sum(keys), case.hkv, case.d), device="cuda").to(case.dtype) for _ in range(2))
    row = 0
    for i, sk in enumerate(keys):
        for slot in range(widths[i]):
            table[i][slot] = place = next(order)
            rows = min(case.page, sk - slot * case.page)
            k_pool[place, :rows] = packed_k[row : row + rows]
            v_pool[place, :rows] = packed_v[row : row + rows]
            row += rows
    arguments = {
        "q": torch.randn((sum(queries), case.h, case.d), device="cuda").to(case.dtype),
        "k": k_pool,
        "v": v_pool,
        "cu_seqlens_q": make_int32(*itertools.accumulate(queries, initial=0)),
        "page_table": torch.tensor(table, dtype=torch.int32, device="cuda").view(len(keys), width),
        "seqused_k": make_int32(*keys),
        "causal": case.causal,
        "max_ctas": case.max_ctas,
    }
    return arguments, (packed_k, packed_v)


def compute_packed(flashcore: Any, arguments: dict[str, Any], keys: tuple[Any, Any]) -> tuple[Any, Any]:
    """Compute the same over packed rows."""
    rows = make_int32(*itertools.accumulate(arguments["seqused_k"].tolist(), initial=0))
    same = {name: value for name, value in arguments.items() if name not in {"k", "v", "page_table", "seqused_k"}}
    return flashcore.attention_varlen(k=keys[0], v=keys[1], cu_seqlens_k=rows, return_lse=True, **same)


def compute_exactly(arguments: dict[str, Any], keys: tuple[Any, Any]) -> tuple[Any, Any]:
    """Compute the formula in float64."""
    q, (k, v) = arguments["q"].double(), (tensor.double() for tensor in keys)
    out, lse = torch.zeros_like(q), torch.full((q.shape[1], len(q)), -math.inf, dtype=torch.float64, device=q.device)
    starts, first = arguments["cu_seqlens_q"].tolist(), 0
    for i, sk in enumerate(arguments["seqused_k"].tolist()):
        rows, part = slice(starts[i], starts[i + 1]), slice(first, first + sk)
        sq, first = starts[i + 1] - starts[i], first + sk
        if not sq or not sk:
            continue
        group = q.shape[1] // k.shape[1]
        heads = (tensor[part].transpose(0, 1).repeat_interleave(group, dim=0) for tensor in (k, v))
        one_k, one_v = heads
        scores = q[rows].transpose(0, 1) @ one_k.transpose(1, 2) / math.sqrt(q.shape[2])
        if arguments["causal"]:
            last = torch.arange(sq, device=q.device)[:, None] + sk - sq
            scores.masked_fill_(torch.arange(sk, device=q.device) > last, -math.inf)
        lse[:, rows] = torch.logsumexp(scores, dim=-1)
        out[rows] = torch.nan_to_num(torch.softmax(scores, dim=-1) @ one_v).transpose(0, 1)
    return out, lse


def find_difference(flashcore: Any, case: Case, *, exact: bool = True) -> str:
    """Return what is wrong, or an empty string."""
    arguments, keys = make_case(case)
    out, lse = torch.full_like(arguments["q"], MARK), torch.full((case.h, len(arguments["q"])), MARK, device="cuda")
    flashcore.attention_varlen(**arguments, out=out, lse=lse)
    packed, packed_lse = compute_packed(flashcore, arguments, keys)
    again, again_lse = flashcore.attention_varlen(**arguments, return_lse=True)
    if not torch.equal(out, again) or not torch.equal(lse, again_lse):
        return "the second call gives other bits"
    if not torch.equal(out, packed) or not torch.equal(lse, packed_lse):
        rows = (out != packed).flatten(1).any(1).nonzero().flatten().tolist()
        return f"other bits than packed rows, finite: {bool(out.isfinite().all())}, rows {rows[:8]} of {len(rows)}"
    if exact:
        right, right_lse = compute_exactly(arguments, keys)
        limit = 2e-3 if case.dtype == torch.float16 else 1.6e-2
        error = float(((out - right).abs() / (1 + right.abs())).max())
        error_lse = float(torch.nan_to_num(lse - right_lse).abs().max())
        if not (error < limit and error_lse < 1e-3 and torch.equal(lse.isinf(), right_lse.isinf())):
            return f"errors {error} and {error_lse}"
    return ""


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "dtype"), list(itertools.product((64, 128, 256), (torch.float16, torch.bfloat16))))
@pytest.mark.parametrize("page", PAGES)
def test_pages_of_any_size(flashcore: Any, page: int, d: int, dtype: Any, causal: bool) -> None:
    case = Case(lengths=MIXED, page=page, d=d, dtype=dtype, causal=causal)
    assert find_difference(flashcore, case, exact=page == 16) == ""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("page", [16, 48, 256])
def test_views_of_other_layouts(flashcore: Any, page: int, layout: str) -> None:
    for d, hkv in ((64, 4), (128, 1)):
        assert find_difference(flashcore, Case(lengths=MIXED, page=page, d=d, hkv=hkv, layout=layout, max_ctas=3)) == ""


def test_one_page_in_two_sequences_and_a_page_used_twice(flashcore: Any) -> None:
    """The sequences share their first pages, as with a common prompt. The last page of one is the first of another."""
    pool, lengths = torch.randn((9, 16, 2, 64), device="cuda", dtype=torch.float16), (100, 97, 33, 48)
    rows = [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 7], [6, 6, 8, -1, -1, -1, -1], [3, 2, 3, -9, -1, -1, -1]]
    q, cu = torch.randn((60, 4, 64), device="cuda", dtype=torch.float16), make_int32(0, 20, 41, 42, 60)
    table = torch.tensor(rows, dtype=torch.int32, device="cuda")
    out = flashcore.attention_varlen(q, pool, pool, cu, page_table=table, seqused_k=make_int32(*lengths), causal=True)
    for i, (length, start, end) in enumerate(zip(lengths, cu.tolist(), cu.tolist()[1:], strict=False)):
        keys = torch.cat([pool[entry] for entry in rows[i] if entry >= 0])[:length]
        single = flashcore.attention_varlen(
            q[start:end], keys, keys, make_int32(0, end - start), make_int32(0, length), causal=True
        )
        assert torch.equal(out[start:end], single)


@pytest.mark.parametrize("d", [64, 128, 256])
def test_pages_past_two_gigaelements(flashcore: Any, d: int) -> None:
    """Pages are further apart than 2^31 elements, in the pool and between the rows of a page."""
    stride, page, count = 2**31 + 64, 16, 3
    memory = torch.zeros((count - 1) * stride + page * 2 * d, device="cuda", dtype=torch.float16)
    pool = memory.as_strided((count, page, 2, d), (stride, 2 * d, d, 1))
    near = torch.randn((count, page, 2, d), device="cuda", dtype=torch.float16)
    pool.copy_(near)
    q, table = (
        torch.randn((70, 4, d), device="cuda", dtype=torch.float16),
        torch.tensor([[2, 0, 1], [1, 2, 0]], dtype=torch.int32, device="cuda"),
    )
    options = {"page_table": table, "seqused_k": make_int32(48, 41), "causal": True}
    cu = make_int32(0, 30, 70)
    assert torch.equal(
        flashcore.attention_varlen(q, pool, pool, cu, **options), flashcore.attention_varlen(q, near, near, cu, **options)
    )
    turned = pool.permute(1, 0, 2, 3)  # 16 pages of 3 keys, whose keys are far apart
    near = near.permute(1, 0, 2, 3)
    options |= {"page_table": torch.arange(15, -1, -1, dtype=torch.int32, device="cuda").view(1, 16).repeat(2, 1)}
    assert torch.equal(
        flashcore.attention_varlen(q, turned, turned, cu, **options), flashcore.attention_varlen(q, near, near, cu, **options)
    )


def test_padded_rows_of_a_graph(flashcore: Any) -> None:
    """Sequences without queries have any length and any pages. Rows of no sequence keep their mark."""
    case = Case(lengths=[(1, 700), (1, 65), (40, 333), (1, 1)], page=16)
    arguments, keys = make_case(case)
    expected, _ = compute_packed(flashcore, arguments, keys)
    table = torch.full((9, arguments["page_table"].shape[1]), -1, dtype=torch.int32, device="cuda")
    table[:4], table[5] = arguments["page_table"], 2**31 - 1
    starts, end = arguments["cu_seqlens_q"].tolist(), len(arguments["q"])
    padded = {
        **arguments,
        "q": torch.cat([arguments["q"], torch.full((21, 4, 64), math.nan, device="cuda", dtype=torch.float16)]),
        "cu_seqlens_q": make_int32(*starts, *[end] * 5),
        "seqused_k": make_int32(*arguments["seqused_k"].tolist(), 0, 700, -5, 2**31 - 1, 3),
        "page_table": table,
    }
    out = torch.full_like(padded["q"], MARK)
    graph = torch.cuda.CUDAGraph()
    flashcore.attention_varlen(**padded, out=out)
    with torch.cuda.graph(graph):
        flashcore.attention_varlen(**padded, out=out)
    for _ in range(2):
        out.fill_(MARK)
        graph.replay()
        assert torch.equal(out[:end], expected)
        assert bool((out[end:] == MARK).all())
    padded["seqused_k"].fill_(0)  # a stale graph input
    graph.replay()
    assert bool((out[:end] == 0).all())
    assert bool((out[end:] == MARK).all())


@pytest.mark.parametrize("page", [1, 16, 528])
def test_wrong_lengths_and_entries_stay_within_the_pool(flashcore: Any, page: int) -> None:
    whole = torch.full((3000, 2, 64), math.nan, device="cuda", dtype=torch.float16)
    count = 1000 // page
    pool = whole[1000 : 1000 + count * page].normal_().view(count, page, 2, 64)
    q, cu = torch.randn((64, 2, 64), device="cuda", dtype=torch.float16), make_int32(0, 16, 32, 48, 64)
    table = torch.tensor(WRONG_ENTRIES, dtype=torch.int32, device="cuda")[:, None].repeat(1, 5)
    used = make_int32(-7, 2**31 - 1, 5 * page, 10**9)
    out, lse = flashcore.attention_varlen(q, pool, pool, cu, page_table=table, seqused_k=used, return_lse=True)
    assert bool((out[:16] == 0).all())
    assert bool(torch.isneginf(lse[:, :16]).all())
    nearest = table.clamp(0, count - 1)
    full = flashcore.attention_varlen(q, pool, pool, cu, page_table=nearest, seqused_k=used.clamp(0, 5 * page))
    assert torch.equal(out, full)
    assert bool(out.isfinite().all())
    assert torch.equal(flashcore.attention_varlen(q, pool, pool, cu, page_table=nearest)[16:], full[16:])  # full by default


def test_a_table_view_and_used_queries(flashcore: Any) -> None:
    arguments, keys = make_case(Case(lengths=MIXED, page=32, d=128))
    table, used = arguments["page_table"], make_int32(*(sq // 2 for sq, _ in MIXED))
    wide = torch.full((len(table), 2 * table.shape[1] + 5), -3, dtype=torch.int32, device="cuda")
    wide[:, : table.shape[1]] = table
    expected = compute_packed(flashcore, {**arguments, "seqused_q": used}, keys)
    for view in (wide, wide[:, : table.shape[1]]):
        out, lse = flashcore.attention_varlen(**{**arguments, "page_table": view}, seqused_q=used, return_lse=True)
        for i, start in enumerate(arguments["cu_seqlens_q"].tolist()[:-1]):
            rows = slice(start, start + int(used[i]))
            assert torch.equal(out[rows], expected[0][rows])
            assert torch.equal(lse[:, rows], expected[1][:, rows])


@pytest.mark.parametrize("page", [16, 24, 0])
@pytest.mark.parametrize(("queries", "d"), [(1, 64), (17, 64), (130, 128)])
def test_flash_attn_with_kvcache(flashcore: Any, queries: int, d: int, page: int) -> None:
    """Equal numbers of queries, then packed ones. Without pages each sequence of the cache is one."""
    lengths = [(queries, sk) for sk in (5, 700, 0, 333)]
    arguments, keys = make_case(Case(lengths=lengths, page=page or 777, d=d))
    expected, expected_lse = compute_packed(flashcore, arguments, keys)
    table, order = arguments["page_table"], arguments["page_table"][:, 0].clamp(0, len(arguments["k"]) - 1).long()
    k, v = (arguments[name] if page else arguments[name][order] for name in ("k", "v"))
    options = {"cache_seqlens": arguments["seqused_k"], "page_table": table if page else None}
    options |= {"causal": True, "return_softmax_lse": True}
    out, lse = flashcore.flash_attn_with_kvcache(
        arguments["q"], k, v, cu_seqlens_q=arguments["cu_seqlens_q"], max_seqlen_q=999, **options
    )
    same_bits = queries > 16  # else they run as decode
    assert torch.equal(out, expected) if same_bits else torch.allclose(out, expected, atol=2e-3)
    assert torch.equal(lse, expected_lse) if same_bits else torch.allclose(lse, expected_lse, atol=1e-3)
    out, lse = flashcore.flash_attn_with_kvcache(arguments["q"].view(4, queries, 4, d), k, v, **options)
    assert torch.allclose(out.flatten(0, 1), expected, atol=2e-3)
    assert torch.allclose(lse.transpose(0, 1).flatten(1), expected_lse, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {name: a[name][..., :32] for name in ("q", "k", "v")}, r"^k: pages must hold .* of head dimension 64"),
        (lambda a: {name: a[name][:0] for name in ("k", "v")}, r"^pages: must be from 1"),
        (
            lambda a: {"k": a["k"].new_zeros(len(a["k"]) * 5000).as_strided(a["k"].shape, (4097, 128, 64, 1))},
            r"^k: the page stride must be a multiple of 16 bytes",
        ),
    ],
)
def test_errors_name_the_argument(flashcore: Any, change: Any, message: str) -> None:
    arguments, _ = make_case(Case(lengths=[(3, 50), (1, 20), (7, 7)], page=16))
    arguments["page_table"].clamp_(0, 3)
    with pytest.raises(ValueError, match=message):
        flashcore.attention_varlen(**{**arguments, **change(arguments)})
