"""Deterministic decode and packed rows of a warpgroup in the emulator: values, equal bits on any number of CTAs, and planted defects."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from emulated import DTYPES, Library, ViolationError, operand, structure
from emulated_cases import Decode, Draw, Local, add_workspace, expect, rows_of, timed
from emulator_build import build

pytestmark = pytest.mark.nightly

DETERMINISTIC, WARPGROUP = "flashcore_decode_deterministic_d64_fp16", "flashcore_decode_warpgroup_d64_fp16"
LOCAL_WARPGROUP = "flashcore_decode_local_warpgroup_d64_fp16"
WIDE_WARPGROUP = "flashcore_decode_warpgroup_d128_fp16"
FOLDED_BY_CTA = (
    "            save(partial_of(cta_ * work_.places.slots + 1 + segment - work_.first), row, pair, columns);\n            return;",
    """            float2* const own = partial_of(cta_ * work_.places.slots + 1);
            save(own, row, pair, segment == work_.first ? columns : fold(read(own, row, pair), columns));
            if (segment == work_.first) return;
            const ColumnPair none = {{sm90::minus_infinity(), 0.0f}, {0.0f, 0.0f}};
            save(partial_of(cta_ * work_.places.slots + 1 + segment - work_.first), row, pair, none);
            return;""",
)
"""Of kernel/defects/mutants.toml."""
KEPT_VALUES = ("if (first == 0 && last == kTileKeys) return;", "if (first >= 0) return;")


def load(tmp_path: Path, variants: list[str], mutations: Mapping[str, tuple[str, str]] | None = None, seed: int = 1) -> Library:
    library = Library(build(tmp_path / f"{len(list(tmp_path.iterdir()))}.so", variants, ["decode"], mutations=mutations))
    library.configure(seed=seed, multiprocessors=5)
    return library


def bits_on(library: Library, ctas: int, keys: int, others: tuple[int, ...] = (), heads: int = 4, sq: int = 1) -> bytes:
    """Return the output of a sequence, next to others. Its keys are in pairs with opposite values, so the exact output is 0.

    What is left is the rounding of each addition, which shows their order.
    """
    d, lengths, numbers = 64, (keys, *others), random.Random(7)
    half, capacity = keys // 2, max(keys, *others, 1)
    normal = lambda count, size=1.0: [numbers.gauss(0.0, size) for _ in range(count)]  # noqa: E731
    q, k, v = normal(sq * heads * d), normal(half * d), normal(half * d, 1000.0)
    k, v = k + k + normal((keys - 2 * half) * d), v + [-x for x in v] + [0.0] * (keys - 2 * half) * d
    pad = [0.0] * (capacity - keys) * d
    for length in others:
        q += normal(sq * heads * d)
        pad += normal(length * d) + [0.0] * (capacity - length) * d
    arguments, batch = structure("FlashcoreDecodeArguments")(), len(lengths)
    query = library.tensor("q", (batch, sq, heads, d), q, "fp16")
    out = library.empty("out", query.shape, "fp16")
    arguments.q, arguments.out = operand(query), operand(out)
    arguments.k, arguments.v = (
        operand(library.tensor(n, (batch, capacity, 1, d), x + pad, "fp16")) for n, x in (("k", k), ("v", v))
    )
    arguments.lengths = library.tensor("lengths", (batch,), lengths, "int32").address
    arguments.batch, arguments.heads, arguments.kv_heads, arguments.sq, arguments.head_dim = batch, heads, 1, sq, d
    arguments.capacity, arguments.scale, arguments.deterministic, arguments.max_ctas = capacity, d**-0.5, 1, ctas
    add_workspace(library, "flashcore_decode_workspace_bytes", arguments)
    library.call("flashcore_decode", arguments)
    bits = ctypes.string_at(out.address, sq * heads * d * 2)
    library.free()
    return bits


def test_deterministic_decode_has_the_same_bits_on_any_number_of_ctas(tmp_path: Path) -> None:
    library = load(tmp_path, [DETERMINISTIC])
    alone = bits_on(library, 1, 1300)
    assert any(alone)
    assert {bits_on(library, ctas, 1300) for ctas in (2, 3, 5)} == {alone}
    assert bits_on(library, 4, 1300, (700, 0)) == alone
    assert bits_on(library, 1, 900, heads=12, sq=3) == bits_on(library, 3, 900, heads=12, sq=3)  # 36 rows fold in the workspace
    Decode(64, (900, 257), heads=4, kv_heads=1, sq=2, page_size=16, deterministic=True, max_ctas=3).run(library)
    for heads, sq in ((2, 1), (8, 1), (12, 2)):  # 1, 4 and 12 rows of each of two heads
        Decode(64, (700, 257), heads=heads, kv_heads=2, sq=sq, deterministic=True, max_ctas=3).run(library)


def test_an_order_that_follows_the_ctas_shows(tmp_path: Path) -> None:
    library = load(tmp_path, [DETERMINISTIC], {"flashcore/decode/segment_consumer.cuh": FOLDED_BY_CTA})
    assert len({bits_on(library, ctas, 2600) for ctas in (1, 2, 3)}) > 1


def attend_packed(
    library: Library, queries: tuple[int, ...], lengths: tuple[int, ...], local: Local | None = None, page: int = 16, d: int = 64
) -> None:
    """Attend from so many queries of each sequence, 8 heads of one KV head, and compare each row with float64."""
    heads, most, rows = 8, 5, sum(queries)
    draw, width = Draw(library, 3), max(-(-n // page) for n in lengths) + 1
    pages = len(lengths) * width
    table = list(range(pages))
    random.Random(5).shuffle(table)
    arguments = structure("FlashcoreDecodeArguments")()
    q = draw.tensor("q", (rows, heads, d), "fp16")
    k, v = (draw.tensor(name, (pages, page, 1, d), "fp16") for name in "kv")
    out, lse = library.empty("out", q.shape, "fp16"), library.empty("lse", (heads, rows), "fp32")
    starts = [sum(queries[:i]) for i in range(len(queries) + 1)]
    arguments.cu_seqlens_q = library.tensor("starts", (len(starts),), starts, "int32").address
    arguments.lengths = library.tensor("lengths", (len(lengths),), lengths, "int32").address
    arguments.page_table = library.tensor("table", (len(lengths), width), table, "int32").address
    arguments.table_stride, arguments.table_width, arguments.pages, arguments.page_size = width, width, pages, page
    arguments.batch, arguments.heads, arguments.kv_heads, arguments.head_dim = len(lengths), heads, 1, d
    arguments.sq, arguments.total_q, arguments.causal, arguments.max_ctas = most, rows, 1, 3
    arguments.dtype = arguments.cache_dtype = arguments.new_dtype = DTYPES["fp16"]
    arguments.scale, arguments.lse, arguments.capacity = d**-0.5, lse.address, page
    arguments.q, arguments.out = operand(q, "shd"), operand(out, "shd")
    arguments.k, arguments.v = operand(k), operand(v)
    if local is not None:
        local.write(library, arguments)
    add_workspace(library, "flashcore_decode_workspace_bytes", arguments)
    result = timed(library, "flashcore_decode", arguments)
    got_q, got_k, got_v, got_out = (rows_of(tensor, d) for tensor in (q, k, v, out))
    got_lse, seen = lse.values(), Local(*((local.left, 0, local.chunk, local.softcap, local.sinks) if local else (-1, 0)))
    for b, length in enumerate(lengths):
        slots = [table[b * width + i // page] * page + i % page for i in range(length)]
        keys, values = [got_k(s) for s in slots], [got_v(s) for s in slots]
        for i in range(queries[b]):
            for h in range(heads):
                row = (starts[b] + i) * heads + h
                expected = expect(got_q(row), keys, values, d**-0.5, seen, i + length - queries[b], h)
                result.take(got_out(row), got_lse[h * rows + starts[b] + i], *expected)
    library.free()
    result.check("fp16")


def test_a_warpgroup_attends_to_packed_rows(tmp_path: Path) -> None:
    library = load(tmp_path, [WARPGROUP, LOCAL_WARPGROUP, WIDE_WARPGROUP])
    attend_packed(library, (5, 1, 3, 5), (700, 70, 3, 129))
    attend_packed(library, (5, 2), (300, 64), page=64)
    attend_packed(library, (5, 4), (500, 90), Local(left=100, sinks=tuple(h - 3.0 for h in range(8))))
    attend_packed(library, (5, 5, 3), (901, 333, 140), Local(left=127), page=64)
    attend_packed(library, (5, 3), (600, 90), d=128)


def test_values_that_no_row_sees_show(tmp_path: Path) -> None:
    library = load(tmp_path, [WARPGROUP], {"flashcore/decode/warpgroup_consumer.cuh": KEPT_VALUES})
    with pytest.raises(ViolationError):
        attend_packed(library, (5,), (70,))
