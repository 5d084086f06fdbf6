"""natural_log of core/logarithm.cuh and log_sum_exp of attention/fp8.cuh, step by step in single precision: the log-sum-exp at its last bit."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

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


def multiply_add(x: float, y: float, z: float) -> float:
    return single(float(Fraction(x) * Fraction(y) + Fraction(z)))


def log_sum_exp(row_max: float, factor: tuple[float, float], row_sum: float) -> float:
    """log_sum_exp of kernel/include/flashcore/attention/fp8.cuh."""
    high_ln2, low_ln2 = single(0.693145751953125), single(1.42860677e-6)
    exponent = (bits_of(row_sum) - 0x3F400000) >> 23
    (mantissa,) = struct.unpack("f", struct.pack("i", bits_of(row_sum) - (exponent << 23)))
    high = single(exponent * high_ln2)
    assert high == exponent * high_ln2
    low = multiply_add(exponent, low_ln2, fast_log(mantissa))
    maximum = single(row_max * factor[0])
    maximum_low = multiply_add(row_max, factor[1], multiply_add(row_max, factor[0], -maximum))
    total = single(maximum + high)
    high_part = single(total - maximum)
    total_low = single(single(maximum - single(total - high_part)) + single(high - high_part))
    return single(total + single(single(total_low + maximum_low) + low))


def maximum_factor(scale: float, q: float, k: float) -> tuple[float, float]:
    product = single(q * k)
    high = single(scale * product)
    return high, multiply_add(scale, multiply_add(q, k, -product), multiply_add(scale, product, -high))


@pytest.mark.parametrize("head_dim", [64, 256])
@pytest.mark.parametrize("keys", [1024, 8192, 32768, 131072])
def test_equal_scores_of_e4m3_round_the_log_sum_exp_once(head_dim: int, keys: int) -> None:
    """FlashAttention-3 rounds the logarithm and then its sum with the scaled maximum. It is right only by luck."""
    row_max, scale = float(448 * 448 * head_dim), head_dim**-0.5
    once, twice = [], []
    for value in (0.3, 0.45, 0.5, 0.7, 0.9, 1.1, 1.3):
        descale = single(single(value) / 448)
        exact = row_max * scale * descale * descale + math.log(keys)
        factor = maximum_factor(scale, descale, descale)
        unit = math.ulp(single(exact)) * 2.0**29
        once.append(abs(log_sum_exp(row_max, factor, keys) - exact) / unit)
        twice.append(abs(multiply_add(row_max, factor[0], natural_log(keys)) - exact) / unit)
    assert max(once) <= 0.52
    assert max(once) <= max(twice)


def test_two_roundings_of_a_log_sum_exp_are_up_to_a_unit_of_the_last_place() -> None:
    rng = random.Random(2)
    once, twice = [], []
    for _ in range(4000):
        row_max, row_sum = single(rng.uniform(-2e7, 2e7)), single(2.0 ** rng.uniform(0, 17))
        factor = maximum_factor(0.125, single(rng.uniform(5e-4, 3e-3)), single(rng.uniform(5e-4, 3e-3)))
        exact = float(Fraction(row_max) * (Fraction(factor[0]) + Fraction(factor[1]))) + math.log(row_sum)
        unit = math.ulp(single(exact)) * 2.0**29
        if abs(exact) > 4.0:  # a small sum of large terms keeps their errors
            once.append(abs(log_sum_exp(row_max, factor, row_sum) - exact) / unit)
            twice.append(abs(multiply_add(row_max, factor[0], natural_log(row_sum)) - exact) / unit)
    assert max(once) < 0.6
    assert max(twice) > 0.9
