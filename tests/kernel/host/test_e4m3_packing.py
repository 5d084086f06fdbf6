"""Round to E4M3 by way of fp16, as attention/e4m3/softmax.cuh does. Its constants are read from there."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

SOFTMAX = (Path(__file__).parents[3] / "kernel/include/flashcore/attention/e4m3/softmax.cuh").read_text(encoding="utf-8")
UNITS = int(re.search(r"kHalfUnits = (0x\w+)", SOFTMAX).group(1), 16)  # type: ignore[union-attr]
SELECTOR = re.search(r"__byte_perm\(low, high, (0x\w+)\)", SOFTMAX).group(1)  # type: ignore[union-attr]
LARGEST = 256  # the largest probability


def to_number(byte: int) -> float:
    exponent, mantissa = byte >> 3, byte & 7
    return math.ldexp(mantissa, -9) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 10)


def pack(numbers: list[float]) -> list[int]:
    halves = [struct.unpack("<H", struct.pack("<e", number / 256))[0] for number in numbers]
    low, high = (((b << 16 | a) * 2 + UNITS) % 2**32 for a, b in (halves[:2], halves[2:]))
    words = low.to_bytes(4, "little") + high.to_bytes(4, "little")
    return [words[int(digit)] for digit in reversed(SELECTOR[2:])]


def test_every_e4m3_up_to_the_largest_probability_is_exact() -> None:
    numbers = [to_number(byte) for byte in range(0x79)]
    assert numbers[-1] == LARGEST
    for first in range(0, 0x78, 4):
        assert pack(numbers[first : first + 4]) == list(range(first, first + 4))
    assert pack([LARGEST] * 4) == [0x78] * 4


def test_numbers_between_are_rounded_to_the_nearest() -> None:
    for byte in range(0x78):
        below, above = to_number(byte), to_number(byte + 1)
        step = above - below
        assert pack([below + part * step for part in (0.1, 0.45, 0.55, 0.9)]) == [byte, byte, byte + 1, byte + 1]


def test_four_different_numbers_keep_their_places() -> None:
    assert [to_number(byte) for byte in pack([1.0, 0.0, 240.0, 2**-9])] == [1.0, 0.0, 240.0, 2**-9]
