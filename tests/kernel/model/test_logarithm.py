"""natural_log of kernel/include/flashcore/core/logarithm.cuh, step by step in single precision: the log-sum-exp at its last bit."""

from __future__ import annotations

import math
import random
import struct

import pytest

LN2 = struct.unpack("f", struct.pack("f", 0.693147182))[0]
ULP = 2.0**-23  # of numbers from 1 to below 2


def single(x: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", x))
    return float(rounded)


def bits_of(x: float) -> int:
    return int(struct.unpack("i", struct.pack("f", x))[0])


def fast_log(x: float) -> float:
    """logf under --use_fast_math: lg2.approx, here at its best, times ln 2."""
    return single(single(math.log2(x)) * LN2)


def natural_log(x: float) -> float:
    exponent = (bits_of(x) - 0x3F400000) >> 23
    (mantissa,) = struct.unpack("f", struct.pack("i", bits_of(x) - (exponent << 23)))
    assert 0.75 <= mantissa < 1.5
    return single(exponent * LN2 + fast_log(mantissa))


def error(log: float, x: float) -> float:
    """In units of the last place of the result, or of 1 if that is larger."""
    return abs(log - math.log(x)) / (ULP * 2.0 ** max(math.frexp(math.log(x))[1] - 1, 0))


@pytest.mark.parametrize("scale", [1.0, 64.0, 2.0**17, 2.0**30])
def test_less_than_an_ulp_where_the_fast_logarithm_has_more(scale: float) -> None:
    rng = random.Random(1)
    sums = [single(scale * rng.uniform(1, 2)) for _ in range(4000)]
    worst = max(error(natural_log(x), x) for x in sums)
    assert worst < 0.75
    assert scale == 1.0 or worst < max(error(fast_log(x), x) for x in sums)


@pytest.mark.parametrize("x", [0.75, 1.0, 1.5, 2.0, 2.0**-126, 2.0**127])
def test_at_the_edges_of_the_mantissa(x: float) -> None:
    assert error(natural_log(x), x) < 0.75
