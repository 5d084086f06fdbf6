"""Check the addresses of kernel/include/flashcore/sm90/smem_descriptor.cuh: wgmma reads what TMA writes.

TMA with the 128-byte swizzle puts element (row, column) of a column of swizzle atoms at byte 128 * row + 2 * column and XORs
address bits 4-6 with bits 7-9. A wgmma reads its operand as swizzle atoms of 8 x 128 bytes. The descriptor's two strides join
them, and wgmma applies the same swizzle to the addresses that it computes.
"""

from __future__ import annotations

import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "kernel/include/flashcore/sm90"
HEADERS = "".join((FOLDER / name).read_text(encoding="utf-8") for name in ("element_traits.cuh", "smem_descriptor.cuh"))
ATOM_COLUMNS, SWIZZLE_BYTES, ATOM_BYTES, UNIT, MMA_K = 64, 128, 1024, 16, 16


def swizzle(address: int) -> int:
    return address ^ (address >> 7 & 7) << 4


def stored(row: int, column: int, rows: int) -> int:
    """Where TMA puts an element of a tile of several columns of atoms."""
    atom_column, within = divmod(column, ATOM_COLUMNS)
    return swizzle(atom_column * rows * SWIZZLE_BYTES + row * SWIZZLE_BYTES + within * 2)


def k_major_descriptor(i: int, k: int, start: int) -> int:
    """K is contiguous. Atoms are ATOM_BYTES apart, and all K of one mma is within the 128 bytes."""
    return swizzle(start * UNIT + i // 8 * ATOM_BYTES + i % 8 * SWIZZLE_BYTES + k * 2)


def mn_major_descriptor(n: int, k: int, start: int, rows: int) -> int:
    """M or N is contiguous. Columns of atoms are the leading offset apart, atoms in a column the stride."""
    leading, stride = rows * SWIZZLE_BYTES, ATOM_BYTES
    return swizzle(start * UNIT + n // ATOM_COLUMNS * leading + k // 8 * stride + k % 8 * SWIZZLE_BYTES + n % ATOM_COLUMNS * 2)


def k_major_offset(step: int, rows: int) -> int:
    return (step % 4 * MMA_K * 2 + step // 4 * rows * SWIZZLE_BYTES) // UNIT


def mn_major_offset(step: int) -> int:
    return step * MMA_K * SWIZZLE_BYTES // UNIT


def test_constants_are_those_of_the_headers() -> None:
    for name, text in (
        ("kSwizzleBytes", "128"),
        ("kUnitBytes", "16"),
        ("kMmaKBytes", "32"),
        ("kSwizzleAtomBytes", "kCoreMatrixRows * kSwizzleBytes"),
        ("kMmaK", "kMmaKBytes / kBytes"),
        ("kSwizzleAtomColumns", "kSwizzleBytes / kBytes"),
    ):
        assert re.search(rf"constexpr int {name} = {re.escape(text)};", HEADERS)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("rows", [64, 80, 128])
def test_query_and_key_descriptors(rows: int, head_dim: int) -> None:
    for step in range(head_dim // MMA_K):
        start = k_major_offset(step, rows)
        for i in range(rows):
            for k in range(MMA_K):
                assert k_major_descriptor(i, k, start) == stored(i, step * MMA_K + k, rows)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("keys", [80, 128, 176])
def test_value_descriptor(keys: int, head_dim: int) -> None:
    for step in range(keys // MMA_K):
        for n in range(head_dim):
            for k in range(MMA_K):
                assert mn_major_descriptor(n, k, mn_major_offset(step), keys) == stored(step * MMA_K + k, n, keys)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_ldmatrix_addresses_every_unit_of_the_query(head_dim: int) -> None:
    """Lane l of swizzled_unit_address has row l % 16 and the unit of columns 8 (l / 16). Together they are a warp's rows."""
    rows, named = 64, set()
    for warp_row in range(0, rows, 16):
        for column in range(0, head_dim, 16):
            for lane in range(32):
                row, unit = warp_row + lane % 16, column % ATOM_COLUMNS // 8 + lane // 16
                address = row * SWIZZLE_BYTES + column // ATOM_COLUMNS * rows * SWIZZLE_BYTES + (unit ^ row % 8) * 16
                assert address == stored(row, column + lane // 16 * 8, rows)
                named.add(address)
    assert len(named) == rows * head_dim * 2 // 16


def exchange(words: list[list[int]], first: int, second: int, bit: int) -> None:
    """Model exchange<bit> on the words of all four lanes."""
    sent = [words[lane][first if lane & bit else second] for lane in range(4)]
    for lane in range(4):
        words[lane][first if lane & bit else second] = sent[lane ^ bit]


def test_a_quad_gathers_whole_units_of_its_output_rows() -> None:
    """Lane p holds columns 2p and 2p + 1 of four units. After gather_unit it holds unit p from left to right."""
    words = [[8 * unit + 2 * lane for unit in range(4)] for lane in range(4)]
    for first, second, bit in ((0, 2, 2), (1, 3, 2), (0, 1, 1), (2, 3, 1)):
        exchange(words, first, second, bit)
    assert words == [[8 * lane + 2 * i for i in range(4)] for lane in range(4)]
