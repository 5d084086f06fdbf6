"""Append to any cache with PyTorch's indexing, where the decode kernel cannot. Nothing waits for the device, so a graph can capture it."""

from __future__ import annotations

from typing import Any

import torch

from flashcore._tensors import check_distinct, check_exactly

PACKED_RANK = 3


def append(
    caches: tuple[torch.Tensor, ...],
    new: tuple[torch.Tensor, ...],
    lengths: torch.Tensor,
    page_table: torch.Tensor | None,
    starts: torch.Tensor | None,
) -> torch.Tensor:
    """Write new keys and values behind each sequence's length, and return the new lengths.

    Args:
        caches: Keys and values, (sequences, capacity, heads, d), or with ``page_table`` (pages, page size, heads, d).
        new: The rows to write, (sequences, rows, heads, d), or with ``starts`` (all rows, heads, d).
        lengths: Keys of each sequence before the call, int32 (sequences,).
        page_table: Pages of each sequence, int32 (sequences, pages of a sequence).
        starts: First new row of each sequence and the end, int32 (sequences + 1,).

    Rows that do not fit are dropped. So are rows past the last start.
    """
    _check(caches, new, lengths, starts)
    batch, size = lengths.shape[0], caches[0].shape[1]
    capacity = size if page_table is None else size * page_table.shape[1]
    before = lengths.long()
    if starts is None:
        count = new[0].shape[1]
        sequence = torch.arange(batch, device=lengths.device).repeat_interleave(count)
        offset = torch.arange(count, device=lengths.device).repeat(batch)
        counts = torch.full_like(before, count)
        rows = tuple(tensor.flatten(0, 1) for tensor in new)
    else:
        sequence, offset = locate(starts, new[0].shape[0])
        counts = starts.long().diff()
        rows = new
    length = before[sequence]
    fits = (offset < counts[sequence]) & (length + offset < capacity) & (length >= 0)
    # A row that is dropped writes what another row writes to the same place: its sequence's first new row, or what was there.
    index = torch.arange(len(sequence), device=lengths.device)
    first = (index - offset).clamp(0, max(0, len(sequence) - 1))
    source = torch.where(fits, index, first)
    has_row = fits[source] & (sequence[source] == sequence)
    position = torch.where(has_row, length + offset[source], length - 1).clamp(0, capacity - 1)
    page, place = sequence, position
    if page_table is not None:
        page = page_table.long()[sequence, position // size].clamp(0, caches[0].shape[0] - 1)
        place = position % size
    for cache, tensor in zip(caches, rows, strict=True):
        values = torch.where(has_row[:, None, None], tensor[source], cache[page, place])
        cache.index_put_((page, place), values)
    return (before + counts).clamp(max=capacity).to(torch.int32)


def locate(starts: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sequence of each packed row, and its place there. Rows behind the last sequence count as its own."""
    index = torch.arange(rows, device=starts.device)
    sequence = torch.searchsorted(starts[1:].long(), index, right=True).clamp(max=starts.shape[0] - 2)
    return sequence, index - starts.long()[sequence]


def _check(
    caches: tuple[torch.Tensor, ...], new: tuple[torch.Tensor, ...], lengths: torch.Tensor, starts: torch.Tensor | None
) -> None:
    """ValueError unless the tensors fit together, before anything is written."""
    keys, sequences = caches[0], lengths.shape[0]
    check_exactly(lengths, keys, "cache_seqlens", torch.int32, (sequences,))
    if starts is not None:
        check_exactly(starts, keys, "cu_seqlens_k_new", torch.int32, (sequences + 1,))
    leading: tuple[Any, ...] = tuple(new[0].shape[: 2 if starts is None else 1])
    if starts is None and leading[0] != sequences:
        raise ValueError(f"k: must have {sequences} sequences as cache_seqlens, has {leading[0]}")
    for name, tensor, cache in zip("kv", new, caches, strict=True):
        expected = (*leading, *cache.shape[2:])
        if tuple(tensor.shape) != expected or tensor.dtype != cache.dtype or tensor.device != cache.device:
            raise ValueError(
                f"{name}: must be {cache.dtype} of shape {expected} on {cache.device}, is {tensor.dtype} of shape {tuple(tensor.shape)}"
                f" on {tensor.device}"
            )
        check_distinct(cache, f"{name}_cache")
