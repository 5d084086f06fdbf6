"""Decode through a window or a chunk loads no tile before it. Values cannot show that: a tile that is masked gives the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from emulated import Library, Tensor
from emulated_cases import Decode, Local, Result
from emulator_build import build

pytestmark = pytest.mark.nightly

ENTRY, TILE = "flashcore_decode_local_d64_fp16", 128
LENGTHS, LEFT, CHUNK = (700, 130, 1, 0), 100, 150
HEADER = "flashcore/decode/work_list.cuh"
FIRST = "const int first = visible_range(params.local.window, keys - queries, keys).first;"
BY_WINDOW = "const int first = max_int(keys - queries - params.local.window.left, 0);"
SKIPPED = "return min_int(first, max_int(keys - 1, 0)) >> shift << shift;"
counters: list[Tensor] = []
found: list[int] = []


@dataclass(frozen=True)
class Counting(Local):
    """A window whose launch counts the tiles that it loads."""

    def write(self, library: Library, arguments: Any) -> None:
        super().write(library, arguments)
        counters.append(library.tensor("loaded_tiles", (1,), (0,), "int32"))
        arguments.loaded_tiles = counters[-1].address


@dataclass(frozen=True)
class Counted(Decode):
    """Decode that reads the counter before its memory is freed."""

    def compare(self, result: Result, tensors: Any, slot: Callable[[int, int], int]) -> None:
        super().compare(result, tensors, slot)
        found.append(int(counters[-1].values()[0]))


def count_tiles(out: Path, mutations: Mapping[str, tuple[str, str]], *, chunk: int = 0) -> int:
    library = Library(build(out, [ENTRY], ["decode"], mutations=mutations))
    library.configure(multiprocessors=4)
    Counted(64, LENGTHS, heads=1, kv_heads=1, local=Counting(left=-1 if chunk else LEFT, chunk=chunk)).run(library)
    return found[-1]


def test_decode_skips_the_tiles_before_its_window(tmp_path: Path) -> None:
    tiles = [max(1, -(-length // TILE)) for length in LENGTHS]  # an empty sequence has one too
    skipped = [max(0, length - 1 - LEFT) // TILE for length in LENGTHS]
    assert count_tiles(tmp_path / "sound.so", {}) == sum(tiles) - sum(skipped)
    assert count_tiles(tmp_path / "mutant.so", {HEADER: (SKIPPED, "return 0;")}) == sum(tiles)


def test_decode_skips_the_tiles_before_its_chunk(tmp_path: Path) -> None:
    tiles = [max(1, -(-length // TILE)) for length in LENGTHS]
    skipped = [max(0, length - 1) // CHUNK * CHUNK // TILE for length in LENGTHS]
    assert count_tiles(tmp_path / "sound.so", {}, chunk=CHUNK) == sum(tiles) - sum(skipped)
    assert count_tiles(tmp_path / "mutant.so", {HEADER: (FIRST, BY_WINDOW)}, chunk=CHUNK) == sum(tiles)
