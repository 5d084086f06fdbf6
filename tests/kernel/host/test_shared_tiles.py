"""Check tiles that heads share: attention/shared_tile.h is compiled for the host."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"
ROWS = 64
ATTEND, ZEROS, OUT_OF_RANGE = range(3)
LENGTHS = (0, 1, 5, 33, 64, 65, 100, 128, 129, 192, 193, 200, 257, 700)
HEADS = [(1, 1), (4, 4), (2, 1), (3, 1), (4, 1), (5, 1), (8, 2), (14, 2), (16, 1), (71, 1)]


@dataclass(frozen=True, kw_only=True)
class Batch:
    sequences: tuple[tuple[int, int], ...]
    causal: bool
    warpgroups: int
    heads: int
    kv_heads: int
    share: bool = True

    @property
    def group(self) -> int:
        return self.heads // self.kv_heads

    def line(self) -> str:
        numbers = (self.causal, self.warpgroups, self.heads, self.kv_heads, self.share, len(self.sequences))
        return " ".join(str(int(n)) for n in (*numbers, *(n for sequence in self.sequences for n in sequence)))


@dataclass(frozen=True, kw_only=True)
class Block:
    row: int
    head: int
    rows: int
    visible: int
    work: tuple[int, int, int, int]  # work kind, n_blocks, fully masked and unmasked


@dataclass(frozen=True, kw_only=True)
class Tile:
    kv_head: int
    heads: int
    kv_batch: int
    blocks: tuple[Block, ...]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tiles") / "tiles"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'stubs'}", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, str(HOST / "shared_tiles.cpp"), "-o", str(out)], check=True, timeout=600)
    return out


def list_tiles(program: Path, batches: list[Batch]) -> list[list[Tile]]:
    text = "\n".join(batch.line() for batch in batches)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=600)
    found: list[list[Tile]] = []
    for line in done.stdout.splitlines():
        if line.startswith("batch"):
            found.append([])
            continue
        kv_head, heads, kv_batch, *rest = (int(word) for word in line.split())
        blocks = tuple(
            Block(row=row, head=head, rows=rows, visible=visible, work=(kind, *work))
            for row, head, rows, visible, kind, *work in zip(*(iter(rest),) * 8, strict=True)
        )
        found[-1].append(Tile(kv_head=kv_head, heads=heads, kv_batch=kv_batch, blocks=blocks))
    assert len(found) == len(batches)
    return found


def draw_batches(causal: bool, warpgroups: int) -> Iterator[Batch]:
    numbers = random.Random(3)
    for heads, kv_heads in HEADS:
        sequences = tuple((length, numbers.choice((0, 1, 64, length, 300, 1000))) for length in LENGTHS)
        yield Batch(sequences=sequences, causal=causal, warpgroups=warpgroups, heads=heads, kv_heads=kv_heads)


def rows_of(batch: Batch) -> Counter[tuple[int, int]]:
    starts = [sum(sq for sq, _ in batch.sequences[:i]) for i in range(len(batch.sequences))]
    pairs = ((start + row, head) for start, (sq, _) in zip(starts, batch.sequences, strict=True)
             for row in range(0, sq, ROWS) for head in range(batch.heads))  # fmt: skip
    return Counter(pairs)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("warpgroups", [2, 3])
def test_every_block_of_rows_comes_once_and_with_its_own_work(program: Path, warpgroups: int, causal: bool) -> None:
    batches = list(draw_batches(causal, warpgroups))
    alone = [replace(batch, share=False) for batch in batches]
    for batch, tiles, separate in zip(batches, list_tiles(program, batches), list_tiles(program, alone), strict=True):
        expected = {(block.row, block.head): block for tile in separate for block in tile.blocks if block.rows > 0}
        seen = [block for tile in tiles for block in tile.blocks if block.rows > 0]
        assert Counter((block.row, block.head) for block in seen) == rows_of(batch)
        for block in seen:  # also what is masked, so each row's sequence of operations is the same
            other = expected[block.row, block.head]
            assert (block.rows, block.visible, block.work) == (other.rows, other.visible, other.work)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("warpgroups", [2, 3])
def test_the_warpgroups_of_a_tile_wait_for_the_same_blocks(program: Path, warpgroups: int, causal: bool) -> None:
    batches = list(draw_batches(causal, warpgroups))
    for batch, tiles in zip(batches, list_tiles(program, batches), strict=True):
        for tile in tiles:
            kinds = {block.work[0] for block in tile.blocks}
            assert len({block.work[1] for block in tile.blocks}) == 1
            assert ZEROS not in kinds or kinds == {ZEROS}
            assert {block.head // batch.group for block in tile.blocks} == {tile.kv_head}
            for block in tile.blocks:
                assert block.rows > 0 or block.work[0] in {ZEROS, OUT_OF_RANGE}
            if tile.heads > 1:
                present = [block for block in tile.blocks if block.rows > 0]
                assert [block.head for block in present] == list(range(present[0].head, present[0].head + tile.heads))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("warpgroups", [2, 3])
def test_short_rows_fill_as_many_warpgroups_as_there_are_heads(program: Path, warpgroups: int, causal: bool) -> None:
    for heads, kv_heads in HEADS:
        batch = Batch(sequences=((48, 500),), causal=causal, warpgroups=warpgroups, heads=heads, kv_heads=kv_heads)
        (tiles,) = list_tiles(program, [batch])
        per_kv_head = -(-batch.group // warpgroups)
        assert len(tiles) == kv_heads * per_kv_head
        assert max(tile.heads for tile in tiles) == -(-batch.group // per_kv_head)
