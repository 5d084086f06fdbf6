"""Appends with PyTorch's indexing, against a loop."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB


def write(caches: Any, new: Any, lengths: list[int], counts: list[int], capacity: int, place: Any) -> None:
    """Append row by row. ``place`` returns the page and the row of a position."""
    starts = [0, *itertools.accumulate(counts)]
    for cache, rows in zip(caches, new, strict=True):
        for sequence, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            for offset in range(count):
                if length + offset < capacity:
                    cache[place(sequence, length + offset)] = rows[starts[sequence] + offset]


@pytest.mark.parametrize("seed", range(40))
def test_an_append_writes_what_a_loop_writes(operators: Any, seed: int) -> None:
    torch = operators.torch
    from flashcore import _append, _tensors

    assert _tensors.DEVICE == "cpu"
    draw = random.Random(seed)
    batch, size, width = draw.randint(1, 5), draw.choice((1, 3, 16)), draw.randint(1, 4)
    paged, packed = seed % 2 == 1, seed % 4 > 1
    capacity = size * width if paged else size
    pages = batch * width + 2 if paged else batch
    table = torch.randperm(pages)[: batch * width].view(batch, width).int() if paged else None
    most = draw.randint(1, capacity)
    counts = [draw.randint(0, most) if packed else most for _ in range(batch)]
    lengths = [draw.randint(0 if count else -1, capacity) for count in counts]
    lengths = [max(0, length) for length in lengths]
    caches = [torch.randn(pages, size, 2, 8) for _ in range(2)]
    expected = [cache.clone() for cache in caches]
    rows = [torch.randn(sum(counts), 2, 8) for _ in range(2)]
    write(
        expected, rows, lengths, counts, capacity,
        (lambda s, p: (table[s, p // size].item(), p % size)) if paged else lambda s, p: (s, p),
    )  # fmt: skip
    starts = torch.tensor([0, *itertools.accumulate(counts)], dtype=torch.int32) if packed else None
    padding = [torch.randn(3, 2, 8)] if packed else []  # rows of no sequence
    new = tuple(torch.cat([tensor, *padding]) if packed else tensor.view(batch, most, 2, 8) for tensor in rows)
    after = _append.append(tuple(caches), new, torch.tensor(lengths, dtype=torch.int32), table, starts)
    assert all(map(torch.equal, caches, expected))
    assert after.tolist() == [min(capacity, a + b) for a, b in zip(lengths, counts, strict=True)]


def test_wrong_rows_are_named_before_anything_is_written(operators: Any) -> None:
    torch = operators.torch
    from flashcore import _append

    cache, lengths = torch.zeros(2, 5, 2, 8), torch.zeros(2, dtype=torch.int32)
    good = torch.ones(2, 1, 2, 8)
    for bad, message in (
        ((good, good[:, :, :1]), r"^v: must be torch.float32 of shape \(2, 1, 2, 8\) on cpu, is"),
        ((good[:1], good[:1]), r"^k: must have 2 sequences as cache_seqlens, has 1"),
        ((good.half(), good), r"^k: must be torch.float32"),
    ):
        with pytest.raises(ValueError, match=message):
            _append.append((cache, cache.clone()), bad, lengths, None, None)
    with pytest.raises(ValueError, match=r"^k_cache: elements share memory"):
        _append.append((cache[:1].expand(2, 5, 2, 8), cache), (good, good), lengths, None, None)
    assert not cache.any()
