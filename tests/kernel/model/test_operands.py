"""The address map of kernel/include/flashcore/sm90/operand.cuh: what TMA writes is what a wgmma descriptor makes it read.

TMA with the 128-byte swizzle puts element (row, column) of a 64-column block at byte 128 * row + 2 * column and exchanges
address bits 4-6 with bits 7-9. A wgmma reads its operand as 8 x 128-byte core blocks, joined by the descriptor's two strides,
and applies the same exchange to the addresses that it computes.
"""

from __future__ import annotations

import pathlib
import re

import pytest

HEADER = (pathlib.Path(__file__).resolve().parents[3] / "kernel/include/flashcore/sm90/operand.cuh").read_text(encoding="utf-8")
BLOCK, ROW_BYTES, GROUP_BYTES, UNIT, DEPTH = 64, 128, 1024, 16, 16


def swizzle(address: int) -> int:
    return address ^ (address >> 7 & 7) << 4


def stored(row: int, column: int, rows: int) -> int:
    """Where TMA puts an element of a tile of several column blocks."""
    block, within = divmod(column, BLOCK)
    return swizzle(block * rows * ROW_BYTES + row * ROW_BYTES + within * 2)


def row_operand(i: int, k: int, start: int) -> int:
    """K runs along a row: 8-row groups are GROUP_BYTES apart, and the whole depth lies within the 128 bytes."""
    return swizzle(start * UNIT + i // 8 * GROUP_BYTES + i % 8 * ROW_BYTES + k * 2)


def column_operand(n: int, k: int, start: int, rows: int) -> int:
    """K runs down the rows: 64-column blocks are the leading offset apart, 8-row groups the stride."""
    leading, stride = rows * ROW_BYTES, GROUP_BYTES
    return swizzle(start * UNIT + n // BLOCK * leading + k // 8 * stride + k % 8 * ROW_BYTES + n % BLOCK * 2)


def row_step(step: int, rows: int) -> int:
    return (step % 4 * DEPTH * 2 + step // 4 * rows * ROW_BYTES) // UNIT


def column_step(step: int) -> int:
    return step * DEPTH * ROW_BYTES // UNIT


def test_constants_are_those_of_the_header() -> None:
    for name, text in (
        ("kBlockColumns", "64"),
        ("kRowBytes", "kBlockColumns * kElementBytes"),
        ("kGroupBytes", "kGroupRows * kRowBytes"),
        ("kChunkBytes", "16"),
        ("kMmaDepth", "16"),
    ):
        assert re.search(rf"constexpr int {name} = {re.escape(text)};", HEADER)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("rows", [64, 80, 128])
def test_query_and_key_operands(rows: int, head_dim: int) -> None:
    for step in range(head_dim // DEPTH):
        start = row_step(step, rows)
        for i in range(rows):
            for k in range(DEPTH):
                assert row_operand(i, k, start) == stored(i, step * DEPTH + k, rows)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("keys", [80, 128, 176])
def test_value_operand(keys: int, head_dim: int) -> None:
    for step in range(keys // DEPTH):
        for n in range(head_dim):
            for k in range(DEPTH):
                assert column_operand(n, k, column_step(step), keys) == stored(step * DEPTH + k, n, keys)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_ldmatrix_names_the_chunks_of_the_query(head_dim: int) -> None:
    """Lane l of block_chunk names row l % 16 and the chunk of columns 8 (l / 16); together they are a warp's rows."""
    rows, named = 64, set()
    for warp_row in range(0, rows, 16):
        for column in range(0, head_dim, 16):
            for lane in range(32):
                row, chunk = warp_row + lane % 16, column % BLOCK // 8 + lane // 16
                address = row * ROW_BYTES + column // BLOCK * rows * ROW_BYTES + (chunk ^ row % 8) * 16
                assert address == stored(row, column + lane // 16 * 8, rows)
                named.add(address)
    assert len(named) == rows * head_dim * 2 // 16


def exchange(words: list[list[int]], first: int, second: int, bit: int) -> None:
    """What exchange<bit> does to the words of all four lanes at once."""
    sent = [words[lane][first if lane & bit else second] for lane in range(4)]
    for lane in range(4):
        words[lane][first if lane & bit else second] = sent[lane ^ bit]


def test_a_quad_gathers_whole_chunks_of_its_output_rows() -> None:
    """Lane p holds columns 2p and 2p + 1 of four chunks; after gather_chunk it holds chunk p from left to right."""
    words = [[8 * chunk + 2 * lane for chunk in range(4)] for lane in range(4)]
    for first, second, bit in ((0, 2, 2), (1, 3, 2), (0, 1, 1), (2, 3, 1)):
        exchange(words, first, second, bit)
    assert words == [[8 * lane + 2 * i for i in range(4)] for lane in range(4)]
