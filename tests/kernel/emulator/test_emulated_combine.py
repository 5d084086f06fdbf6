"""The merge of partial results on the CPU: values against float64, for every access width, layout, number of splits and output type."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from emulated import Library, Tensor, ViolationError, structure
from emulator_build import build

LIMITS = {"fp32": 1e-6, "fp16": 2e-3, "bf16": 1.6e-2}
TYPES = ("fp16", "bf16", "fp32")
HEADER = "flashcore/combine/combine.cuh"
DEFECTS = {
    "max-not-subtracted": ("exp2_approx((lse - (max_ == sm90::minus_infinity() ? 0.0f : max_)) * kLog2E)", "exp2_approx(lse * kLog2E)"),
    "last-split-lost": ("splits_(params.splits),", "splits_(params.splits - 1),"),
    "weights-of-one-turn": ("begin == 0 ? first_ : load(begin + lane_)", "first_"),
    "nan-of-unwritten": ("has_columns && factors[i] > 0.0f", "has_columns && first + i < count"),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    head_dim: int
    splits: int = 5
    dtype: str = "fp32"
    batch: int = 2
    sequence: int = 3
    heads: int = 3
    order: str = "bshd"  # of the partial outputs, outermost first. The log-sum-exps are then in the other order
    padding: int = 0  # columns behind each row
    spread: float = 3.0
    max_ctas: int = 0


def make_operand(tensor: Tensor, order: str) -> tuple[Any, int]:
    """Return the operand of a tensor whose dimensions are in this order, and the stride of its splits."""
    strides = dict(zip(order, tensor.strides(), strict=True))
    operand = structure("FlashcoreOperand")()
    operand.data = tensor.address
    operand.batch_stride, operand.sequence_stride, operand.head_stride = (strides[name] for name in "bsh")
    return operand, strides.get("n", 0)


def draw(case: Case) -> tuple[dict[tuple[int, ...], list[float]], dict[tuple[int, ...], float]]:
    """Draw the outputs and log-sum-exps of each (split, batch, position, head) in float32. Some splits, and all of one row, are -inf."""
    draws = random.Random(str(case))
    sizes = (case.splits, case.batch, case.sequence, case.heads)
    places = [(n, b, s, h) for n in range(sizes[0]) for b in range(sizes[1]) for s in range(sizes[2]) for h in range(sizes[3])]
    lse = {place: to_float(draws.gauss(100.0, case.spread)) for place in places}
    lse |= {place: -math.inf for place in places if place[1:] == (0, 0, 0) or (draws.random() < 0.2 and place[0])}
    return {place: [to_float(draws.gauss(0, 1)) for _ in range(case.head_dim)] for place in places}, lse


def to_float(x: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def lay_out(values: dict[tuple[int, ...], Any], order: str, sizes: dict[str, int]) -> list[Any]:
    """List the values by these dimensions, outermost first."""
    found = sorted(values, key=lambda place: [dict(zip("nbsh", place, strict=True))[name] for name in order])
    assert len(found) == math.prod(sizes[name] for name in order)
    return [values[place] for place in found]


def run(library: Library, case: Case) -> tuple[float, float]:
    """Return the largest errors of the output and of the log-sum-exp."""
    partial, lse = draw(case)
    sizes = {"n": case.splits, "b": case.batch, "s": case.sequence, "h": case.heads}
    width, outer, turned = case.head_dim + case.padding, f"n{case.order[:-1]}", f"nb{case.order[-2]}{case.order[-3]}"
    rows = [  # where nothing may be read, NaN stands for memory that nobody has written
        [*(values if lse_value != -math.inf else [math.nan] * case.head_dim), *[math.nan] * case.padding]
        for values, lse_value in zip(lay_out(partial, outer, sizes), lay_out(lse, outer, sizes), strict=True)
    ]
    outputs = library.tensor("partial", (*(sizes[n] for n in outer), width), [x for row in rows for x in row], "fp32")
    sums = library.tensor("lse_partial", tuple(sizes[n] for n in turned), lay_out(lse, turned, sizes), "fp32")
    shape = (case.batch, case.sequence, case.heads, case.head_dim)
    out, total = library.empty("out", shape, case.dtype), library.empty("lse", (case.batch, case.heads, case.sequence), "fp32")
    a = structure("FlashcoreCombineArguments")()
    a.max_ctas, a.out_dtype, a.splits, a.head_dim = case.max_ctas, TYPES.index(case.dtype), case.splits, case.head_dim
    a.batch, a.sequence, a.heads, a.lse = case.batch, case.sequence, case.heads, total.address
    a.partial, a.partial_split_stride = make_operand(outputs, f"{outer}d")
    a.lse_partial, a.lse_partial_split_stride = make_operand(sums, turned)
    a.out, _ = make_operand(out, "bshd")
    library.call("flashcore_combine", a)
    got, got_lse = out.values(), total.values()
    wrong = wrong_lse = 0.0
    for row, (b, s, h) in enumerate(
        (b, s, h) for b in range(case.batch) for s in range(case.sequence) for h in range(case.heads)
    ):
        numbers = [lse[n, b, s, h] for n in range(case.splits)]
        largest = max(numbers)
        weights = [0.0 if largest == -math.inf else math.exp(x - largest) for x in numbers]
        norm = sum(weights)
        columns = zip(*(partial[n, b, s, h] for n in range(case.splits)), strict=True)
        expected = [sum(map(mul, weights, column)) / (norm or 1.0) for column in columns]
        found = got[row * case.head_dim : (row + 1) * case.head_dim]
        wrong = max([wrong, *(math.inf if x != x else abs(x - y) for x, y in zip(found, expected, strict=True))])  # noqa: PLR0124
        sum_of_all, it = (largest + math.log(norm) if norm else -math.inf), got_lse[(b * case.heads + h) * case.sequence + s]
        wrong_lse = max(wrong_lse, 0.0 if it == sum_of_all else math.inf if it != it else abs(it - sum_of_all))  # noqa: PLR0124
    library.free()
    return wrong, wrong_lse


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(build(tmp_path_factory.mktemp("combine") / "combine.so", ["flashcore_combine_f32"], ["combine"]))


CASES = [
    *(
        Case(d, dtype=dtype)
        for d, dtype in ((64, "fp16"), (128, "bf16"), (96, "fp32"), (80, "fp16"), (192, "bf16"), (512, "fp32"))
    ),
    *(Case(d, dtype=dtype) for d, dtype in ((59, "fp32"), (1, "bf16"), (111, "fp16"), (8, "fp32"))),
    *(Case(64, splits=n, heads=1) for n in (1, 2, 7, 8, 9, 16, 17, 33)),
    *(Case(d, splits=256, batch=1, sequence=2, heads=1, dtype="bf16") for d in (32, 128)),
    Case(128, order="bhsd", dtype="fp16"),
    Case(64, padding=64),
    Case(64, padding=1, dtype="fp16"),  # rows without the alignment of vectors
    Case(64, splits=40, batch=1, spread=60.0),
    Case(64, batch=3, sequence=5, heads=4, max_ctas=2),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(library: Library, case: Case) -> None:
    library.configure(seed=case.head_dim + case.splits)
    wrong, wrong_lse = run(library, case)
    assert wrong <= LIMITS[case.dtype]
    assert wrong_lse <= 1.6e-5  # two roundings near 128


def test_the_order_of_warps_changes_nothing(library: Library) -> None:
    results = set()
    for seed in range(3):
        library.configure(seed=seed, independent=True)
        results.add(run(library, Case(96, splits=20, dtype="bf16")))
    library.configure()
    assert len(results) == 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"splits": 0}, "splits"), ({"splits": 257}, "splits"), ({"out_dtype": 3}, "out_dtype"), ({"head_dim": 0}, "head_dim"),
        ({"heads": -1}, "heads"), ({"max_ctas": -1}, "max_ctas"), ({"lse": 0}, "partial"),
        ({"batch": 1 << 30, "sequence": 1 << 30, "heads": 4}, "partial"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_by_name(library: Library, change: dict[str, int], name: str) -> None:
    a = structure("FlashcoreCombineArguments")()
    a.splits, a.head_dim, a.batch, a.sequence, a.heads = 2, 64, 1, 1, 1
    for field, value in change.items():
        setattr(a, field, value)
    with pytest.raises(ViolationError, match=f"^{name}: "):
        library.call("flashcore_combine", a)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_caught(tmp_path: Path, defect: str) -> None:
    mutations = {HEADER: DEFECTS[defect]}
    library = Library(build(tmp_path / "mutant.so", ["flashcore_combine_f32"], ["combine"], mutations=mutations))
    library.configure()
    try:
        wrong = max(run(library, Case(64, splits=33, heads=1)))
    except ViolationError:  # it reads what is not there
        return
    assert wrong > 1e-3


def merge_with_sink(library: Library, holders: tuple[int, ...], sink: float, parts: list[list[tuple[float, list[float]]]]) -> Any:
    """Merge splits of one row. ``holders`` are the splits whose log-sum-exp already has the sink. Return the output and its log-sum-exp."""
    outputs: list[float] = []
    sums: list[float] = []
    for split, keys in enumerate(parts):
        norm = sum(math.exp(score) for score, _ in keys) + (math.exp(sink) if split in holders else 0.0)
        columns = zip(*(values for _, values in keys), strict=True) if keys else [()] * 64
        weights = [math.exp(score) / norm for score, _ in keys]
        outputs += [sum(map(mul, weights, column)) for column in columns]
        sums.append(math.log(norm) if norm else -math.inf)
    splits = len(parts)
    partial, lse = (
        library.tensor("partial", (splits, 64), outputs, "fp32"),
        library.tensor("lse_partial", (splits,), sums, "fp32"),
    )
    out, total = library.empty("out", (64,), "fp32"), library.empty("lse", (1,), "fp32")
    a = structure("FlashcoreCombineArguments")()
    a.out_dtype, a.splits, a.head_dim, a.batch, a.sequence, a.heads = TYPES.index("fp32"), splits, 64, 1, 1, 1
    a.partial.data, a.lse_partial.data, a.out.data, a.lse = partial.address, lse.address, out.address, total.address
    a.partial_split_stride, a.lse_partial_split_stride = 64, 1
    library.call("flashcore_combine", a)
    result = list(out.values()), total.values()[0]
    library.free()
    return result


def draw_keys(count: int) -> list[tuple[float, list[float]]]:
    draws = random.Random(count)
    return [(draws.gauss(0, 2), [draws.gauss(0, 1) for _ in range(64)]) for _ in range(count)]


@pytest.mark.parametrize("sink", [-20.0, 0.5, 12.0])
@pytest.mark.parametrize("holder", [0, 2])
def test_a_sink_that_one_split_holds_counts_once(library: Library, holder: int, sink: float) -> None:
    library.configure()
    keys = draw_keys(11)
    out, lse = merge_with_sink(library, (holder,), sink, [keys[:4], keys[4:5], keys[5:]])
    norm = math.exp(sink) + sum(math.exp(score) for score, _ in keys)
    expected = [sum(math.exp(score) * values[i] for score, values in keys) / norm for i in range(64)]
    assert max(abs(x - y) for x, y in zip(out, expected, strict=True)) <= LIMITS["fp32"]
    assert lse == pytest.approx(math.log(norm), abs=2e-6)
    twice, larger = merge_with_sink(library, (0, 2), sink, [keys[:4], keys[4:5], keys[5:]])
    if sink > 0:  # a sink in two splits counts twice, which the values above tell apart
        assert larger > lse + 1e-2
        assert max(abs(x - y) for x, y in zip(twice, expected, strict=True)) > LIMITS["fp32"]


def test_a_row_without_keys_keeps_the_sink_as_its_sum(library: Library) -> None:
    library.configure()
    out, lse = merge_with_sink(library, (1,), -3.25, [[], [], []])
    assert (set(out), lse) == ({0.0}, pytest.approx(-3.25, abs=1e-6))
