"""Multiply a warp's probabilities by values in E4M3's order, and find the product in the right columns.

The model of wgmma m64nNk32: a lane's accumulators of row r are columns 8j + 2q and 8j + 2q + 1. Word 2h + r of its A operand has places
16h + 4q to 16h + 4q + 3 of row r. Here q = lane % 4, and r is 0 for row lane / 4, 1 for the row eight below.
"""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"
SOFTMAX = (INCLUDE / "flashcore/attention/e4m3/softmax.cuh").read_text(encoding="utf-8")
KEYS = COLUMNS = 128
ROWS, WORDS = 16, 16  # of a warp, of a lane


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[int], list[int]]:
    out = tmp_path_factory.mktemp("order") / "order"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, str(HOST / "value_order.cpp"), "-o", str(out)], check=True, timeout=120)
    text = subprocess.run([out], capture_output=True, text=True, check=True, timeout=60).stdout
    keys, columns = zip(*(map(int, line.split()) for line in text.splitlines()), strict=True)
    return list(keys), list(columns)


def pack(accumulators: list[int]) -> list[list[int]]:
    """The words of a lane's A operand, as `exponentiate` packs them. The index expressions are its source text."""
    score, word = (
        re.search(r"score<kFirst>\(scores, (i \+ .*?)\);", SOFTMAX),
        re.search(r"probabilities\[(i / 4 \+ r)\]", SOFTMAX),
    )
    assert score
    assert word
    words: list[list[int]] = [[] for _ in range(WORDS)]
    for i in range(0, len(accumulators), 8):
        for r in range(2):
            numbers = [eval(score.group(1).replace("/", "//"), {"i": i, "j": j, "r": r}) for j in range(4)]
            words[eval(word.group(1).replace("/", "//"), {"i": i, "r": r})] = [accumulators[n] for n in numbers]
    return words


def test_orders_are_permutations(order: tuple[list[int], list[int]]) -> None:
    keys, columns = order
    assert sorted(keys) == list(range(KEYS))
    assert sorted(columns) == list(range(COLUMNS))


def test_products_are_those_of_plain_order(order: tuple[list[int], list[int]]) -> None:
    keys, columns = order
    source = random.Random(1)
    p = [[source.randrange(9) for _ in range(KEYS)] for _ in range(ROWS)]
    v = [[source.randrange(9) for _ in range(COLUMNS)] for _ in range(KEYS)]
    transposed = [[v[keys[place]][columns[row]] for place in range(KEYS)] for row in range(COLUMNS)]
    operand = [[0] * KEYS for _ in range(ROWS)]
    for lane in range(32):
        row, q = lane // 4, lane % 4
        accumulators = [p[row + 8 * (i // 2 % 2)][i // 4 * 8 + 2 * q + i % 2] for i in range(KEYS // 2)]
        for number, word in enumerate(pack(accumulators)):
            half, r = number // 2, number % 2
            first = half // 2 * 32 + half % 2 * 16 + 4 * q
            operand[row + 8 * r][first : first + 4] = word
    for row in range(ROWS):
        product = [sum(a * b for a, b in zip(operand[row], transposed[n], strict=True)) for n in range(COLUMNS)]
        expected = [sum(p[row][key] * v[key][column] for key in range(KEYS)) for column in range(COLUMNS)]
        assert [product[columns.index(column)] for column in range(COLUMNS)] == expected


def test_a_lane_stores_eight_neighbouring_columns(order: tuple[list[int], list[int]]) -> None:
    columns = order[1]
    for q in range(4):
        for first in range(0, COLUMNS, 32):  # accumulators first / 2 + 4 i + e of one row
            accumulators = [first // 2 + 4 * i + e for i in range(4) for e in range(2)]
            stored = [columns[a // 4 * 8 + 2 * q + a % 2] for a in accumulators]
            assert stored == list(range(first + 8 * q, first + 8 * q + 8))
