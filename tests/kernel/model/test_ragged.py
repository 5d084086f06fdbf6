"""Model varlen batches: kernel/include/flashcore/attention/{varlen.h,varlen_prepare.cuh,tile_scheduler.h} and the tensor maps of launcher.h, in Python."""

from __future__ import annotations

import random
import re
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from tile_order import Problem

HEADERS = Path(__file__).parents[3] / "kernel/include/flashcore/attention"
LENGTH_BUCKETS = 256
TILE_LIMIT = 2**30
BATCH_ROWS = 2**30
WRAP_STRIDE = 2**34
HEADS, TILE_M = 3, 192


@dataclass(frozen=True, kw_only=True)
class SequenceInfo:
    first_tile: int
    problem: Problem
    q_batch: int
    k_batch: int


def sequence_range(cu_seqlens: list[int], seqused: list[int] | None, total: int, sequence: int) -> tuple[int, int]:
    """(end, length) of a sequence."""

    def clamp(value: int, low: int, high: int) -> int:
        return min(max(value, low), high)

    begin = clamp(cu_seqlens[sequence], 0, total)
    row_count = clamp(cu_seqlens[sequence + 1], begin, total) - begin
    length = row_count if seqused is None else clamp(seqused[sequence], 0, row_count)
    return begin + length, length


def length_bucket(length: int) -> int:
    bits = struct.unpack("<i", struct.pack("<f", float(length)))[0] >> 20
    return LENGTH_BUCKETS - 1 - max(0, bits - (127 << 3) + 1)


def lay_out(q: list[int], k: list[int], *, totals: tuple[int, int], causal: bool = False) -> list[SequenceInfo]:
    """Return the sequence infos that the device makes of cu_seqlens. The last one is empty and has the number of tiles."""
    found = []
    for i in range(len(q) - 1):
        (q_end, sq), (k_end, sk) = sequence_range(q, None, totals[0], i), sequence_range(k, None, totals[1], i)
        found.append((Problem(sequences=HEADS, sq=sq, sk=sk, causal=causal, tile_m=TILE_M), q_end, k_end))
    found.sort(key=lambda info: length_bucket(info[0].sk))
    infos, tiles = [], 0
    for problem, q_end, k_end in found:
        infos.append(SequenceInfo(first_tile=tiles, problem=problem, q_batch=q_end, k_batch=k_end))
        tiles = min(tiles + HEADS * problem.row_tiles, TILE_LIMIT)
    nothing = Problem(sequences=HEADS, sq=0, sk=0, causal=causal)
    return [*infos, SequenceInfo(first_tile=tiles, problem=nothing, q_batch=0, k_batch=0)]


def find_sequence_info(infos: list[SequenceInfo], index: int) -> int:
    batch, end = 0, len(infos) - 1
    while end - batch > 1:
        middle = (batch + end) // 2
        batch, end = (middle, end) if infos[middle].first_tile <= index else (batch, middle)
    return batch


def cu_seqlens(lengths: list[int]) -> list[int]:
    return [sum(lengths[:i]) for i in range(len(lengths) + 1)]


BATCHES = [
    [(5, 5)],
    [(0, 5), (1, 1), (17, 0), (200, 333), (0, 0), (193, 129), (1, 1000), (300, 3), (0, 0)],
    [(700, 700)] * 9,
    [(random.Random(i).randint(0, 400), random.Random(-i).randint(0, 3000)) for i in range(100)],
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_every_tile_of_every_sequence_is_handed_out_once(batch: list[tuple[int, int]], causal: bool) -> None:
    q, k = (cu_seqlens([lengths[i] for lengths in batch]) for i in (0, 1))
    infos = lay_out(q, k, totals=(q[-1], k[-1]), causal=causal)
    tiles_seen = []
    for index in range(infos[-1].first_tile):
        info = infos[find_sequence_info(infos, index)]
        head, row = info.problem.tile_at(index - info.first_tile)
        assert row < info.problem.sq
        tiles_seen.append((info.q_batch - info.problem.sq, head, row))
    starts = [(start, length) for start, (length, _) in zip(q, batch, strict=False)]
    assert sorted(tiles_seen) == sorted((s, h, r) for s, n in starts for h in range(HEADS) for r in range(0, n, TILE_M))


def test_sequences_with_more_keys_come_first_in_buckets_of_an_eighth() -> None:
    assert [length_bucket(n) for n in (0, 1)] == [LENGTH_BUCKETS - 1, LENGTH_BUCKETS - 2]
    buckets = [length_bucket(n) for n in (*range(5000), 2**20, 2**24 + 1, 2**30)]
    assert buckets == sorted(buckets, reverse=True)
    assert min(buckets) >= 0
    assert all(length_bucket(n) < length_bucket(round(n * 0.85)) for n in range(20, 5000))


GARBAGE = [
    [-5, 10**9, -7, 3, 499, 2**31 - 1, 0],
    [0, 500, 0, 500, 0, 500, 100],
    [600] * 7,
    [-(2**31)] * 7,
    [500, 400, 300, 200, 100, 50, 0],
]


@pytest.mark.parametrize("numbers", GARBAGE)
@pytest.mark.parametrize("seqused", [None, [-1, 0, 1, 2**31 - 1, -(2**31), 7]])
def test_any_lengths_give_a_sequence_within_the_rows(numbers: list[int], seqused: list[int] | None) -> None:
    for i in range(6):
        end, length = sequence_range(numbers, seqused, 500, i)
        assert 0 <= end - length <= end <= 500


def test_tiles_of_overlapping_sequences_are_counted_up_to_a_limit() -> None:
    infos = lay_out([0, BATCH_ROWS] * 200, [0] * 400, totals=(BATCH_ROWS, 0))
    assert infos[-1].first_tile == TILE_LIMIT
    for index in (0, 12_345_678, TILE_LIMIT - 1):
        info = infos[find_sequence_info(infos, index)]
        assert 0 <= index - info.first_tile < HEADS * info.problem.row_tiles


@pytest.mark.parametrize("row_bytes", [0, 16, 256, 2**20 + 16, 2**33 - 16])
@pytest.mark.parametrize(("end", "length"), [(0, 0), (1, 1), (700, 700), (1000, 1), (2**30, 2**30), (2**30, 64)])
def test_a_batch_ends_at_every_row(end: int, length: int, row_bytes: int) -> None:
    """Coordinates (row, batch, wrap) of the rows are inside the map and give their addresses. The next row is outside."""
    data = 0x7F00_0000_0000
    first = BATCH_ROWS - length
    for row in {0, length // 2, length - 1} if length else set():
        assert 0 <= first + row < BATCH_ROWS
        address = data + (first + row) * row_bytes + end * row_bytes + BATCH_ROWS * (WRAP_STRIDE - row_bytes)
        assert address % 2**64 == data + (end - length + row) * row_bytes
    assert first + length == BATCH_ROWS
    assert 0 <= WRAP_STRIDE - row_bytes < 2**40


def test_the_numbers_here_are_those_of_the_headers() -> None:
    text = "".join(
        (HEADERS / name).read_text(encoding="utf-8") for name in ("params.h", "plan.h", "launcher.h", "varlen_prepare.cuh")
    )
    for found in (
        r"kBatchRows = 1 << 30;",
        r"kTileLimit = int64_t\{1\} << 30;",
        r"kWrapStride = int64_t\{1\} << 34;",
        r"kVarlenStrideLimit = int64_t\{1\} << 33;",
        r"kLengthBuckets = 256;",
        r"kBucketBits = 3;",
    ):
        assert re.search(found, text), found
