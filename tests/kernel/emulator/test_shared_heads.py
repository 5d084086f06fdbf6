"""Tiles that heads share: values, bits and planted defects."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from emulated import Library, Tensor, ViolationError
from emulated_cases import Result
from emulated_packed import Packed
from emulator_build import build

pytestmark = pytest.mark.nightly

PREPARE = "flashcore_attention_prepare"
SHARED, SCHEDULER = "flashcore/attention/shared_heads.h", "flashcore/attention/shared_tile.h"
SEQUENCES = ((33, 150), (0, 40), (1, 129), (5, 5), (64, 300), (65, 65), (100, 130), (20, 0), (200, 260))  # queries and keys
NEVER = {SHARED: ("return config.paged_kv && !config.local;", "return false;")}
SHAPES = [  # d, mask, heads, KV heads. Of three warpgroups (d = 64) and of two
    (64, "causal", 8, 2),
    (64, "full", 5, 1),
    (128, "causal", 4, 2),
    (128, "full", 3, 1),
    (128, "causal", 2, 2),  # no heads share a KV head
    (256, "causal", 2, 1),
]


@dataclass(frozen=True)
class Kept(Packed):
    bits: list[bytes] = field(default_factory=list)

    def compare(self, result: Result, tensors: tuple[Tensor, ...], slot: object) -> None:
        rows, heads, columns = tensors[0].shape
        self.bits.append(ctypes.string_at(tensors[3].address, rows * heads * columns * 2))
        self.bits.append(ctypes.string_at(tensors[4].address, rows * heads * 4))


def load(
    tmp_path: Path,
    d: int,
    mask: str,
    mutations: dict[str, tuple[str, str]] | None = None,
    kinds: tuple[str, ...] = ("", "paged_"),
) -> Library:
    names = [*(f"flashcore_attention_fwd_{kind}d{d}_fp16_{mask}" for kind in kinds), PREPARE]
    return Library(build(tmp_path / f"{len(list(tmp_path.iterdir()))}.so", names, ["varlen"], mutations=mutations))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ragged_batches(tmp_path: Path, shape: tuple[int, str, int, int]) -> None:
    d, mask, heads, kv_heads = shape
    library = load(tmp_path, d, mask)
    case = Packed(d, SEQUENCES, heads=heads, kv_heads=kv_heads, page_size=16, causal=mask == "causal")
    cases = [case, replace(case, page_size=0)] if heads > kv_heads else [case]  # packed rows are read like a page
    for seed in (1, 2):
        library.configure(seed=seed, late=seed == 1, multiprocessors=3)
        for one in cases:
            replace(one, seed=seed).run(library)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_shared_tile_has_the_bits_of_tiles_of_one_head(tmp_path: Path, shape: tuple[int, str, int, int]) -> None:
    d, mask, heads, kv_heads = shape
    case = Kept(d, SEQUENCES, heads=heads, kv_heads=kv_heads, page_size=64, causal=mask == "causal")
    for mutations in (None, NEVER):
        library = load(tmp_path, d, mask, mutations)
        library.configure(multiprocessors=3)
        case.run(library)
    assert case.bits[:2] == case.bits[2:]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[2] > shape[3]], ids=str)
def test_packed_rows_have_the_bits_of_their_own_entry_function(tmp_path: Path, shape: tuple[int, str, int, int]) -> None:
    d, mask, heads, kv_heads = shape
    case = Kept(d, SEQUENCES, heads=heads, kv_heads=kv_heads, causal=mask == "causal")
    for kinds in (("", "paged_"), ("",)):
        library = load(tmp_path, d, mask, kinds=kinds)
        library.configure(multiprocessors=3)
        case.run(library)
    assert case.bits[:2] == case.bits[2:]


PRODUCER = "flashcore/attention/paged_producer.cuh"


def run_pages_and_rows(library: Library, case: Packed) -> None:
    for page_size in (16, 0):
        replace(case, page_size=page_size).run(library)


DEFECTS = [
    ("packed rows end where the first sequence does", (PRODUCER, "if (pages_.table == nullptr) return static_cast<int>", "if (false) return static_cast<int>"), "wrong values"),
    ("packed rows have a table", (PRODUCER, "if (pages_.table == nullptr) return 0;", ""), "outside of any allocation"),
    ("a warpgroup masks as if its rows came later", (SCHEDULER, "kCausal ? tile.visible - rows : tile.visible", "tile.visible"), "deadlock"),
    ("a warpgroup stores the rows of the first head", (SCHEDULER, "tile.head + number", "tile.head"), "not been written"),
    ("a warpgroup has no rows", (SCHEDULER, "tile.rows + rows", "tile.rows"), "deadlock"),
    ("a warpgroup reads the rows behind its own", (SCHEDULER, "tile.row - rows", "tile.row"), "not been written"),
    ("a tile takes a head of the next KV head", (SCHEDULER, "min(split.heads, params.heads_per_kv_head - first)", "split.heads"), "outside of any allocation|wrong values"),
    ("the tiles of a sequence begin at the first head", (SCHEDULER, "kv_head * params.heads_per_kv_head + first", "first"), "not been written"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found"), [defect[1:] for defect in DEFECTS], ids=[defect[0] for defect in DEFECTS])
def test_a_planted_defect_is_found(tmp_path: Path, change: tuple[str, str, str], found: str) -> None:
    library = load(tmp_path, 64, "causal", {change[0]: change[1:]})
    library.configure(multiprocessors=3)
    with pytest.raises(ViolationError, match=found):
        run_pages_and_rows(library, Packed(64, SEQUENCES, heads=10, kv_heads=2))
