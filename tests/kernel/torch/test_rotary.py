"""Rotary embedding with PyTorch's operators, against complex numbers."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB


def turn(rows: Any, cos: Any, sin: Any, at: int, *, interleaved: bool, torch: Any) -> Any:
    """Turn (heads, d) by the angles of a position."""
    half = cos.shape[1]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    pairs = torch.complex(rows[:, first], rows[:, second]) * torch.complex(cos[at], sin[at])
    result = rows.clone()
    result[:, first], result[:, second] = pairs.real, pairs.imag
    return result


@pytest.mark.parametrize("seed", range(24))
def test_rows_are_turned_by_their_positions(operators: Any, seed: int) -> None:
    torch = operators.torch
    from flashcore import _rotary

    draw = random.Random(seed)
    packed, interleaved, causal = (bool(seed >> bit & 1) for bit in range(3))
    batch, half, d = draw.randint(1, 4), draw.choice((1, 4, 8)), 16
    counts = [[draw.randint(0, 5) if packed else most for _ in range(batch)] for most in (draw.randint(1, 5), draw.randint(1, 5))]
    q, k = (torch.randn(sum(count), heads, d) for count, heads in zip(counts, (4, 2), strict=True))
    cos, sin = torch.randn(30, half), torch.randn(30, half)
    first = [draw.randint(0, 20) for _ in range(batch)] if seed % 3 else [7] * batch
    starts = [torch.tensor([0, *count]).cumsum(0).int() if packed else None for count in counts]
    given = (q, k) if packed else (q.unflatten(0, (batch, -1)), k.unflatten(0, (batch, -1)))
    positions = torch.tensor(first, dtype=torch.int32) if seed % 3 else 7
    actual = _rotary.rotate(*given, (cos, sin), positions, (starts[0], starts[1]), interleaved=interleaved, causal=causal)
    for rows, count, counts_up, turned in zip((q, k), counts, (causal, True), actual, strict=True):
        places = [first[i] + j * counts_up for i in range(batch) for j in range(count[i])]
        right = [turn(row, cos, sin, at, interleaved=interleaved, torch=torch) for row, at in zip(rows, places, strict=True)]
        expected = torch.stack(right) if right else rows
        torch.testing.assert_close(turned.reshape(expected.shape), expected)
