"""Check the tiles of attention's CTAs and the work of each warpgroup against a model.

attention/{tile_scheduler,warpgroup_work,plan}.h are compiled for the host.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"
BATCH_ROWS = 2**30
ROWS = 64
ATTEND, ZEROS, OUT_OF_RANGE = range(3)
TILES = [(192, 128), (128, 128), (128, 64)]
LENGTHS = [
    (1, 1),
    (1, 1000),
    (17, 17),
    (63, 65),
    (113, 203),
    (128, 127),
    (799, 3),
    (1023, 1024),
    (500, 0),
    (385, 640),
    (192, 128),
    (193, 129),
]


@dataclass(frozen=True, kw_only=True)
class Batch:
    sequences: tuple[tuple[int, int, int, int], ...]
    """First query row, queries, first key row and keys of each."""
    varlen: bool
    causal: bool
    tile: tuple[int, int] = (192, 128)
    heads: int = 2
    ctas: int = 3

    def line(self) -> str:
        numbers = (self.causal, *self.tile, self.heads, self.ctas, self.varlen, len(self.sequences))
        return " ".join(str(int(n)) for n in (*numbers, *(n for sequence in self.sequences for n in sequence)))

    def visible(self, sequence: int, row: int) -> int:
        _, sq, _, sk = self.sequences[sequence]
        return max(0, min(sk, row + 1 + sk - sq)) if self.causal else sk


@dataclass(frozen=True, kw_only=True)
class Tile:
    cta: int
    row: int
    head: int
    batch: int
    rows: int
    visible: int
    kv_batch: int
    first_key: int
    works: tuple[tuple[int, int, int, int], ...]
    """Work kind, n_blocks, fully masked and unmasked of each warpgroup."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tiles") / "tiles"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'stubs'}", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, str(HOST / "attention_tiles.cpp"), "-o", str(out)], check=True, timeout=600)
    return out


def scheduled(program: Path, batches: list[Batch]) -> list[list[Tile]]:
    text = "\n".join(batch.line() for batch in batches)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=600)
    found: list[list[Tile]] = []
    expected_tiles = 0
    for line in done.stdout.splitlines():
        word, *rest = line.split()
        if word == "batch":
            expected_tiles = int(rest[0])
            found.append([])
        elif word == "end":
            assert rest == ["0", "0"], "the counters must be zero for the next launch"
            assert len(found[-1]) == expected_tiles
        else:
            cta, *numbers = (int(number) for number in (word, *rest))
            works = tuple(zip(*(iter(numbers[7:]),) * 4, strict=True))
            fields = dict(zip(("row", "head", "batch", "rows", "visible", "kv_batch", "first_key"), numbers, strict=False))
            found[-1].append(Tile(cta=cta, works=works, **fields))
    assert len(found) == len(batches)
    return found


def coordinate_of(batch: Batch, tile: Tile) -> tuple[int, int]:
    """Return (sequence, first row in it) for the tile's coordinates in the tensor maps."""
    if not batch.varlen:
        return tile.batch, tile.row
    packed = tile.batch - BATCH_ROWS + tile.row
    for i, (begin, sq, _, _) in enumerate(batch.sequences):
        if begin <= packed < begin + sq:
            assert tile.batch == begin + sq, "the map must end with the sequence"
            return i, packed - begin
    raise AssertionError(f"row {packed} belongs to no sequence")


def check_works(batch: Batch, tile: Tile, sequence: int, first: int) -> None:
    tile_m, tile_n = batch.tile
    sq = batch.sequences[sequence][1]
    seen = [batch.visible(sequence, row) for row in range(first, min(first + tile_m, sq))]
    needed = -(-max(seen) // tile_n)
    for warpgroup, (work_kind, n_blocks, fully_masked, unmasked) in enumerate(tile.works):
        own = seen[warpgroup * ROWS : (warpgroup + 1) * ROWS]
        assert n_blocks == needed
        assert work_kind == (ZEROS if not needed else ATTEND if own else OUT_OF_RANGE)
        if work_kind != ATTEND:
            continue
        assert fully_masked == min(needed - -(-max(own) // tile_n), needed - 1)
        assert fully_masked in {0, 1}
        assert unmasked == min(own) // tile_n


def check(batch: Batch, tiles: list[Tile]) -> None:
    tile_m, _ = batch.tile
    coordinates: Counter[tuple[int, int, int]] = Counter()
    for tile in tiles:
        sequence, first = coordinate_of(batch, tile)
        coordinates[sequence, tile.head, first] += 1
        _, sq, k_begin, sk = batch.sequences[sequence]
        assert tile.rows == sq - first
        assert tile.visible == (first + 1 + sk - sq if batch.causal else sk)
        if batch.varlen:
            assert tile.kv_batch - BATCH_ROWS + tile.first_key == k_begin
            assert tile.kv_batch == k_begin + sk
        else:
            assert (tile.kv_batch, tile.first_key) == (sequence, 0)
        check_works(batch, tile, sequence, first)
    wanted = {
        (i, head, row)
        for i, (_, sq, _, _) in enumerate(batch.sequences)
        for head in range(batch.heads)
        for row in range(0, sq, tile_m)
    }
    assert coordinates == Counter(dict.fromkeys(wanted, 1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", TILES)
def test_equally_long_sequences(program: Path, tile: tuple[int, int], causal: bool) -> None:
    batches = [
        Batch(sequences=((0, sq, 0, sk),) * count, varlen=False, causal=causal, tile=tile, heads=heads)
        for sq, sk in LENGTHS
        for count, heads in ((1, 1), (3, 5))
    ]
    for batch, tiles in zip(batches, scheduled(program, batches), strict=True):
        check(batch, tiles)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", TILES)
def test_sequences_of_different_lengths_with_rows_between_them(program: Path, tile: tuple[int, int], causal: bool) -> None:
    rng = random.Random(1)
    batches = []
    for _ in range(40):
        row, key, sequences = 0, 0, []
        for _ in range(rng.randint(1, 20)):
            sq, sk, gap = rng.choice((0, 1, rng.randrange(600))), rng.choice((0, 1, rng.randrange(1500))), rng.randrange(3)
            sequences.append((row, sq, key, sk))
            row, key = row + sq + gap, key + sk + gap
        heads, ctas = rng.randint(1, 4), rng.randint(1, 7)
        batches.append(Batch(sequences=tuple(sequences), varlen=True, causal=causal, tile=tile, heads=heads, ctas=ctas))
    for batch, tiles in zip(batches, scheduled(program, batches), strict=True):
        check(batch, tiles)
