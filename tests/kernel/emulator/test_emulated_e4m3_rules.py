"""The rules of caches and values in E4M3, by the kernels on the emulator: bits of rounded rows, hard scales, and strides of scales.

The reference rounds by Python's own table of E4M3. A quotient of two float32 in double precision, rounded to float32, is IEEE's.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from emulated import DTYPES, Library, Tensor, attend, encode, operand, structure
from emulated_cases import Draw, add_workspace, rows_of
from emulator_build import build

pytestmark = pytest.mark.nightly
D, KV_HEADS, BATCH = 64, 2, 2
PAGE, CAPACITY, NEW = 16, 64, 5
LENGTHS = (14, 40)  # the first new rows cross a page
HARD = (
    math.nan,
    -math.nan,
    math.inf,
    -math.inf,
    1e4,
    -1e4,
    449.0,
    464.0,
    480.0,
    0.0,
    -0.0,
    2.0**-9,
    2.0**-10,
    3 * 2.0**-10,
    17.0,
    19.0,
)
SCALES = (1.0, 0.7, 1e-30, math.inf)  # of each (sequence, KV head)
KEPT = 0x21  # what the cache holds before


def to_fp32(x: float) -> float:
    """Round to float32. What is too large becomes infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def divide(x: float, y: float) -> float:
    """Divide as IEEE does."""
    if y == 0:
        return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1.0, y)
    return to_fp32(x / y)


def matches(bits: int, x: float, scale: float, *, keeps_sign: bool = True) -> bool:
    """Return whether these are the bits of ``(x / scale).clamp(-448, 448)``. ``keeps_sign``: of a NaN that is given."""
    quotient = divide(x, to_fp32(scale))
    if math.isnan(quotient):
        return bits & 0x7F == 0x7F and (not (keeps_sign and math.isnan(x)) or bits >> 7 == (math.copysign(1.0, x) < 0))
    return bits == encode([min(448.0, max(-448.0, quotient))], "e4m3")[0]


def give_scale(library: Library, arguments: Any, name: str, values: Sequence[float], strides: tuple[int, int]) -> None:
    """Write the scales, and their strides of sequences and heads."""
    setattr(arguments, f"{name}_scale", library.tensor(f"{name}_scale", (len(values),), values, "fp32").address)
    for kind, stride in zip(("batch", "head"), strides, strict=True):
        setattr(arguments, f"{name}_scale_{kind}_stride", stride)


def fill_hard(draw: Draw, rows: int, kind: str) -> Tensor:
    """Draw rows whose first columns are hard values. Of E4M3 they are all bytes."""
    numbers = [draw.numbers.gauss(0, 3) for _ in range(rows * D)]
    for row in range(rows):
        numbers[row * D : row * D + len(HARD)] = HARD
    tensor = draw.library.tensor("new", (BATCH, NEW, KV_HEADS, D), [0.0] * len(numbers) if kind == "e4m3" else numbers, kind)
    if kind == "e4m3":
        data = bytes(i % 256 for i in range(len(numbers)))
        draw.library.c.emulator_write(ctypes.c_void_p(tensor.address), data, ctypes.c_size_t(len(data)))
    return tensor


def read_bytes(tensor: Tensor) -> bytes:
    return ctypes.string_at(tensor.address, tensor.count)


def start(library: Library, dtype: str, cache: Sequence[Tensor], lengths: Sequence[int]) -> tuple[Any, Tensor, Tensor]:
    """Fill the arguments of a decode with one query of each head. Return also the query and the output."""
    a = structure("FlashcoreDecodeArguments")()
    q = Draw(library, 5).tensor("q", (BATCH, 1, KV_HEADS, D), dtype)
    out = library.empty("out", q.shape, "bf16" if dtype == "e4m3" else dtype)
    a.batch, a.heads, a.kv_heads, a.sq, a.head_dim = BATCH, KV_HEADS, KV_HEADS, 1, D
    a.capacity, a.dtype, a.cache_dtype, a.scale = CAPACITY, DTYPES[dtype], DTYPES["e4m3"], D**-0.5
    a.q, a.k, a.v, a.out = (operand(x) for x in (q, *cache, out))
    a.lengths = library.tensor("lengths", (BATCH,), lengths, "int32").address
    return a, q, out


@pytest.fixture(scope="module", params=["fp16", "bf16"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Library]:
    name = f"flashcore_decode_d64_{request.param}_e4m3"
    return request.param, Library(build(tmp_path_factory.mktemp("emulated") / "decode.so", [name], ["decode"]))


@pytest.mark.parametrize("page", [0, PAGE])
@pytest.mark.parametrize("kind", ["16 bits", "e4m3"])
def test_an_append_writes_the_bits_of_the_formula(made: tuple[str, Library], kind: str, page: int) -> None:
    dtype, library = made
    library.configure(seed=3)
    draw, width = Draw(library, 3), CAPACITY // (page or CAPACITY)
    kind = dtype if kind == "16 bits" else kind
    table = draw.numbers.sample(range(BATCH * width), BATCH * width) if page else list(range(BATCH))
    caches = [library.tensor(name, (BATCH * width, page or CAPACITY, KV_HEADS, D), [], "e4m3") for name in "kv"]
    for cache in caches:
        library.c.emulator_write(ctypes.c_void_p(cache.address), bytes([KEPT]) * cache.count, ctypes.c_size_t(cache.count))
    new = [fill_hard(draw, BATCH * NEW * KV_HEADS, kind) for _ in "kv"]
    a, _, _ = start(library, dtype, caches, LENGTHS)
    a.k_new, a.v_new, a.new_keys, a.new_dtype, a.page_size = *map(operand, new), NEW, DTYPES[kind], page
    if page:
        a.page_table = library.tensor("page_table", (BATCH, width), table, "int32").address
        a.table_stride, a.table_width, a.pages = width, width, BATCH * width
    scales = {"k": (SCALES, (KV_HEADS, 1)), "v": ((0.0, *SCALES[1:]), (1, BATCH))}
    for name, (values, strides) in scales.items():
        give_scale(library, a, name, values, strides)
    add_workspace(library, "flashcore_decode_workspace_bytes", a)
    library.call("flashcore_decode", a)
    for cache, added, (values, strides) in zip(caches, new, scales.values(), strict=True):
        stored, given, columns = read_bytes(cache), added.values(), KV_HEADS * D
        unseen = set(range(cache.count))
        for b, i, c in itertools.product(range(BATCH), range(NEW), range(columns)):
            key, at = LENGTHS[b] + i, (b * NEW + i) * columns + c
            rows = page or CAPACITY
            place = (table[b * width + key // rows] * rows + key % rows) * columns + c
            scale = values[b * strides[0] + c // D * strides[1]]
            is_right = stored[place] == read_bytes(added)[at] if kind == "e4m3" else matches(stored[place], given[at], scale)
            assert is_right, (b, i, c, given[at], scale, stored[place])
            unseen.discard(place)
        assert {stored[place] for place in unseen} == {KEPT}
    library.free()


def read_with_scales(
    made: tuple[str, Library], strides: tuple[int, int], *scales: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Decode over a cache with these scales of keys and values. Return the output, and float64 of the formula."""
    dtype, library = made
    library.configure(seed=4)
    draw = Draw(library, 4)
    caches = [draw.tensor(name, (BATCH, CAPACITY, KV_HEADS, D), "e4m3") for name in "kv"]
    a, q, out = start(library, dtype, caches, LENGTHS)
    for name, values in zip("kv", scales, strict=True):
        give_scale(library, a, name, values, strides)
    add_workspace(library, "flashcore_decode_workspace_bytes", a)
    library.call("flashcore_decode", a)
    queries, k, v = (rows_of(x, D) for x in (q, *caches))
    expected: list[float] = []
    for b, h in itertools.product(range(BATCH), range(KV_HEADS)):
        k_scale, v_scale = (to_fp32(values[b * strides[0] + h * strides[1]]) for values in scales)
        keys, rows = ([x((b * CAPACITY + i) * KV_HEADS + h) for i in range(LENGTHS[b])] for x in (k, v))
        row, _ = attend(queries(b * KV_HEADS + h), keys, rows, a.scale * k_scale)
        expected += [x * v_scale for x in row]
    got = out.values()
    library.free()
    return got, expected


def is_near(got: float, expected: float) -> bool:
    return math.isnan(got) == math.isnan(expected) and (
        math.isnan(got) or math.isclose(got, expected, rel_tol=1.6e-2, abs_tol=4e-3)
    )


@pytest.mark.parametrize(
    ("k_scale", "v_scale"), list(itertools.product([0.0, 1e-30, math.inf, -1.0], [1.0, 0.0, 1e-30, math.inf]))
)
def test_scales_follow_the_formula(made: tuple[str, Library], k_scale: float, v_scale: float) -> None:
    got, expected = read_with_scales(made, (0, 0), [k_scale], [v_scale])
    assert all(map(is_near, got, expected))


def test_strides_of_scales_do_not_matter(made: tuple[str, Library]) -> None:
    """One value with strides (0, 0), as vLLM passes it, equals a full tensor. A transposed tensor equals a contiguous one."""
    k, v = (0.3, 0.9, 1.7, 0.6), (2.0, 0.5, 1.1, 3.0)
    rows, expected = read_with_scales(made, (KV_HEADS, 1), k, v)
    assert all(map(is_near, rows, expected))
    turned = [[x[0], x[2], x[1], x[3]] for x in (k, v)]
    assert read_with_scales(made, (1, BATCH), *turned)[0] == rows
    assert read_with_scales(made, (0, 0), [0.3], [1.7])[0] == read_with_scales(made, (KV_HEADS, 1), [0.3] * 4, [1.7] * 4)[0]


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_transposed_values_have_the_bits_of_the_formula(tmp_path: Path, kind: str) -> None:
    """A NaN stays NaN, without its sign."""
    library = Library(build(tmp_path / "transpose.so", ["flashcore_e4m3_transpose_values"], ["e4m3"]))
    library.configure(seed=6)
    v = fill_hard(Draw(library, 6), BATCH * NEW * KV_HEADS, kind)
    a = structure("FlashcoreE4m3TransposeArguments")()
    a.dtype, a.batch, a.kv_heads, a.sk, a.head_dim, a.v = DTYPES[kind], BATCH, KV_HEADS, NEW, D, operand(v)
    out = library.empty("values", (BATCH, KV_HEADS, D, 128), "e4m3")
    a.values = out.address
    give_scale(library, a, "v", SCALES, (KV_HEADS, 1))
    library.call("flashcore_e4m3_transpose", a)
    out.values()  # all are written
    stored, given = read_bytes(out), v.values()
    for b, h, row, place in itertools.product(range(BATCH), range(KV_HEADS), range(D), range(128)):
        key = place // 16 * 16 + place // 2 % 2 * 8 + place // 4 % 4 * 2 + place % 2
        column = row // 32 * 32 + row // 2 % 4 * 8 + row // 8 % 4 * 2 + row % 2
        bits = stored[((b * KV_HEADS + h) * D + row) * 128 + place]
        x = given[((b * NEW + key) * KV_HEADS + h) * D + column] if key < NEW else 0.0
        scale = SCALES[b * KV_HEADS + h] if key < NEW else 1.0
        assert matches(bits, x, scale, keeps_sign=False), (b, h, row, place, x, bits)
    library.free()


MUTANTS = {
    "an append multiplies": ("flashcore/decode/producer.cuh", "to_fp8(__fdiv_rn(value, divisor))", "to_fp8(value * divisor)"),
    "NaN is clamped": ("flashcore/decode/fp8.cuh", "return (pair & 0x7Fu) | sign;", "return min(pair & 0x7Fu, 0x7Eu) | sign;"),
}


@pytest.mark.parametrize("defect", MUTANTS)
def test_a_planted_defect_is_found(tmp_path: Path, defect: str) -> None:
    header, old, new = MUTANTS[defect]
    library = Library(
        build(tmp_path / "decode.so", ["flashcore_decode_d64_fp16_e4m3"], ["decode"], mutations={header: (old, new)})
    )
    with pytest.raises(AssertionError):
        test_an_append_writes_the_bits_of_the_formula(("fp16", library), "16 bits", PAGE)
