"""Rotary embedding of queries and new keys before an append, with PyTorch's operators. Nothing waits for the device."""

from __future__ import annotations

from typing import Any

import torch

from flashcore._append import locate
from flashcore._tensors import check_device, to_int

PACKED_RANK = 3
TABLE_RANK = 2


def rotate(
    q: torch.Tensor, k: Any, tables: tuple[Any, Any], positions: Any, starts: tuple[Any, Any], *, interleaved: bool, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate queries and new keys by the angles of their positions.

    Args:
        q: Queries (sequences, rows, heads, d), or (all rows, heads, d).
        k: New keys, likewise.
        tables: Cosines and sines, (positions, half of the rotated columns).
        positions: Position of each sequence's first new key: one number, or int32 (sequences,).
        starts: First rows of the packed sequences of queries and of keys, or None.
        interleaved: Pair neighbouring columns, instead of column i of the first half with column i of the second.
        causal: Count the positions of queries up like those of keys. Otherwise all have their sequence's first.
    """
    cos, sin = tables
    _check(q, k, cos, sin)
    rotated = (
        _rotate(q, cos, sin, _find_positions(q, positions, starts[0], counts_up=causal), interleaved=interleaved),
        _rotate(k, cos, sin, _find_positions(k, positions, starts[1], counts_up=True), interleaved=interleaved),
    )
    return rotated[0], rotated[1]


def have_positions(causal: Any, window: Any, chunk: int, longest: tuple[int | None, int]) -> bool:
    """Return whether queries have positions of their own, as under a mask.

    ``longest`` are the most queries and keys of a sequence. A side of the window that reaches all of them masks none.
    """
    sides = (-1, -1) if window is None else [to_int(side, "window_size") for side in window]  # a tensor has no truth value
    limited = (side >= 0 and (rows is None or side < rows - 1) for side, rows in zip(sides, reversed(longest), strict=True))
    return bool(causal) or chunk > 0 or any(limited)


def _find_positions(rows: torch.Tensor, first: Any, starts: torch.Tensor | None, *, counts_up: bool) -> torch.Tensor:
    """Return the position of each row, (sequences, rows) or (all rows,)."""
    if not isinstance(first, torch.Tensor):
        first = torch.full((1,), to_int(first, "rotary_seqlens, cache_seqlens"), device=rows.device)
        first = first.expand(rows.shape[0] if starts is None else starts.shape[0] - 1)
    if starts is None:
        offset = torch.arange(rows.shape[1], device=rows.device) * counts_up
        return first.long()[:, None] + offset
    sequence, offset = locate(starts, rows.shape[0])
    return first.long()[sequence] + offset * counts_up


def _rotate(
    rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, *, interleaved: bool
) -> torch.Tensor:
    """Rotate the first columns in float32. A position beyond the tables takes their last row."""
    half = cos.shape[1]
    at = positions.clamp(0, cos.shape[0] - 1)
    c, s = (table[at].float().unsqueeze(-2) for table in (cos, sin))
    columns = rows[..., : 2 * half].float()
    x, y = columns.unflatten(-1, (half, 2)).unbind(-1) if interleaved else columns.chunk(2, -1)
    pair = (x * c - y * s, x * s + y * c)
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat((turned.to(rows.dtype), rows[..., 2 * half :]), -1)


def _check(q: torch.Tensor, k: Any, cos: Any, sin: Any) -> None:
    if cos is None or sin is None:
        raise ValueError(f"{'rotary_cos' if cos is None else 'rotary_sin'}: is missing. Pass both cosines and sines")
    if k is None:
        raise ValueError("rotary_cos: needs new keys. Pass k and v")
    for name, rows in (("q", q), ("k", k)):
        if rows.dtype is torch.uint8:
            raise NotImplementedError(
                f"{name}: FlashCore rotates no bytes, which have no sign. Pass a view as torch.float8_e4m3fn"
            )
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        check_device(table, q, name)
        if (
            table.dim() != TABLE_RANK
            or table.shape != cos.shape
            or not 0 < 2 * table.shape[1] <= q.shape[-1]
            or not table.shape[0]
        ):
            raise ValueError(f"{name}: must be (positions, half of at most {q.shape[-1]} columns), is {tuple(table.shape)}")
