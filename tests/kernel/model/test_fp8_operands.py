"""Check the permutations of kernel/include/flashcore/decode/fp8.cuh: the products pair the right columns and keys.

A lane of mma.m16n8k16 holds A as columns k = 2q, 2q + 1 and 2q + 8, 2q + 9 of the rows n and n + 8, for n = lane / 4 and q = lane % 4, and B as
the same k of query row n. C has the query rows 2q and 2q + 1 of its rows n and n + 8. ldmatrix gives lane l the bytes 4q to 4q + 3 of row n of an
8 x 16-byte matrix, or transposed the 16-bit unit n of rows 2q and 2q + 1.
"""

from __future__ import annotations

import itertools
import pathlib
import re

import pytest

HEADERS = pathlib.Path(__file__).resolve().parents[3] / "kernel/include/flashcore/decode"
QUERY, KEYS, MERGE = (
    (HEADERS / name).read_text(encoding="utf-8") for name in ("fp8_query.cuh", "fp8_consumer.cuh", "fp8_merge.cuh")
)
LANES, UNIT = range(32), 16


def k_columns(lane: int) -> list[int]:
    """The values of k in a lane's operand, in the order of its registers and halves."""
    q = lane % 4
    return [2 * q, 2 * q + 1, 2 * q + 8, 2 * q + 9]


@pytest.mark.parametrize("lane", LANES)
def test_query_and_keys_have_the_same_columns_at_the_same_k(lane: int) -> None:
    expression = re.search(r"const int four = (k_step \* .*?);", QUERY)
    assert expression
    code = expression.group(1).replace("(kFp8UnitColumns / 4)", "4").replace("sm90::kQuadLanes", "4")
    for k_step in range(2):
        query = [4 * eval(code, {"k_step": k_step, "lane": lane}) + column for column in range(4)]
        keys = [k_step * UNIT + 4 * (lane % 4) + byte for byte in range(4)]  # low pair, then high pair
        assert query == keys
        assert len(k_columns(lane)) == len(query)


def test_every_column_of_a_unit_is_used_once() -> None:
    assert sorted(4 * q + byte for q in range(4) for byte in range(4)) == list(range(UNIT))


def test_even_and_odd_columns_of_the_values_come_back_in_order() -> None:
    selectors = re.search(r"kEven = 0x(\w+), kOdd = 0x(\w+);", KEYS)
    operand = re.search(r"values\[4\] = \{fp8_pair_to_fp16\((\w+)\), fp8_pair_to_fp16\((\w+)\)", KEYS)
    assert selectors
    assert operand
    assert operand.groups() == ("even", "odd")  # rows n and n + 8 of A
    assert "{output[r], output[2 + r]}" in MERGE  # the same rows of C, for query row 2q + r
    for lane in LANES:
        n = lane // 4
        words = [
            (rows + key, 2 * n + column) for rows in (0, 8) for key in (0, 1) for column in (0, 1)
        ]  # bytes of two words, q = 0
        stored = []
        for selector in selectors.groups():
            chosen = [words[int(digit, 16)] for digit in reversed(selector)]
            assert [key for key, _ in chosen] == [0, 1, 8, 9]
            (column,) = {column for _, column in chosen}
            stored.append(column)
        assert stored == [2 * n, 2 * n + 1]  # pair `quad` of the unit


@pytest.mark.parametrize(("row_bytes", "shift", "mask"), [(128, 7, 7), (64, 7, 3)])
def test_swizzled_addresses_are_those_of_tma(row_bytes: int, shift: int, mask: int) -> None:
    """TMA XORs address bits 4 to 6 with bits 7 to 9, and for 64 bytes bits 4 and 5 with bits 7 and 8."""
    for lane, step in itertools.product(LANES, range(row_bytes // 32)):
        unit = (lane // 16) ^ (lane % 8 if row_bytes == 128 else lane % 8 // 2)
        ours = lane % 16 * row_bytes + ((unit * 16) ^ (step * 32))
        plain = lane % 16 * row_bytes + (2 * step + lane // 16) * 16
        assert ours == plain ^ ((plain >> shift) & mask) << 4
