"""Attention in E4M3 with sequences of different lengths in packed rows, on the emulator, against float64."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import Library, ViolationError
from emulated_e4m3 import PackedE4m3
from emulator_build import build

pytestmark = pytest.mark.nightly
TRANSPOSE = "flashcore_e4m3_transpose_values"
LENGTHS = ((0, 5), (1, 1), (5, 64), (64, 0), (129, 300), (300, 129), (0, 0), (65, 129))
SOME = (0, 1, 9, 63, 64, 128, 191, 200, 299)
SHORT = tuple((1 + i % 3, 5 * i % 7) for i in range(40))  # more sequences than a warp has lanes
CASES = {
    "full": PackedE4m3(64, LENGTHS, rows=SOME),
    "causal-gqa": PackedE4m3(64, LENGTHS, causal=True, heads=6, kv_heads=3, max_ctas=3, rows=SOME[1::3]),
    "used-negative": PackedE4m3(
        64, LENGTHS, causal=True, used=(-1, 0, 5, 3, 128, 64, 0, 300), gap=3, signs=(1.0, -1.0), rows=SOME
    ),
    "short": PackedE4m3(64, SHORT, causal=True, heads=1),
    "no-keys": PackedE4m3(64, ((3, 0), (70, 0)), heads=1),
}
DEFECTS = {
    "factors of another sequence": ("attention/e4m3/producer.cuh", "sequence = params_.sequences[number];", "sequence = number;"),
    "values of the next sequence": ("attention/e4m3/producer.cuh", "kBatchRows, sequence) * kTileN;", "kBatchRows, sequence + 1) * kTileN;"),
    "values do not begin at a block": ("attention/e4m3/forward_params.h", "first_row / kValueKeys + sequence;", "first_row / kValueKeys;"),
    "keys of the rows before": ("attention/e4m3/producer.cuh", "shared_.producer_tile.first_key :", "shared_.producer_tile.first_key - 1 :"),
    "values past the end of a sequence": ("attention/e4m3/transpose.cuh", "first_key < 0 ? 0 : range.end}", "first_key < 0 ? 0 : packed.k.total}"),
    "queries of every sequence from the first row": ("attention/e4m3/producer.cuh", "kVarlen ? params_.wrap : 0", "0"),
}  # fmt: skip


def name_entries(head_dim: int) -> list[str]:
    return [*(f"flashcore_e4m3_fwd_d{head_dim}_{mask}" for mask in ("full", "causal")), TRANSPOSE]


@pytest.fixture(scope="module", params=[64, 128, 256])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Library]:
    folder = tmp_path_factory.mktemp("emulated")
    return request.param, Library(build(folder / "varlen.so", name_entries(request.param), ["e4m3", "e4m3_varlen"]))


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_packed_rows(made: tuple[int, Library], case: PackedE4m3, *, late: bool) -> None:
    head_dim, library = made
    library.configure(seed=1 + late, late=late)
    PackedE4m3(**{**vars(case), "head_dim": head_dim}).run(library)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(tmp_path: Path, defect: str) -> None:
    header, old, new = DEFECTS[defect]
    names, sources = name_entries(64)[1:], ["e4m3", "e4m3_varlen"]
    library = Library(build(tmp_path / "defect.so", names, sources, mutations={f"flashcore/{header}": (old, new)}))
    library.configure(seed=1)
    case = PackedE4m3(64, LENGTHS, causal=True, heads=4, kv_heads=2, used=(5, 1, 40, 0, 300, 100, 0, 129), rows=SOME)
    with pytest.raises(ViolationError):
        case.run(library)
    library.free()
