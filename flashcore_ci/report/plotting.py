"""Map numbers to pixels and wrap SVG files, for the page and the drawing tools."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

LARGEST = 1e15
"""Larger numbers are not measurements. They are drawn at the edge."""

Place = Callable[[float], float]


def linear(low: float, high: float, start: float, end: float) -> Place:
    """Map [low, high] to [start, end], clamped, an empty range to the middle."""
    if not high > low:
        return lambda _: (start + end) / 2
    return lambda value: start + (min(max(value, low), high) - low) / (high - low) * (end - start)


def logarithmic(low: float, high: float, start: float, end: float) -> Place:
    """Map as ``linear``, in logs. Zero maps to the start."""
    inner = linear(math.log10(low), math.log10(high), start, end)
    return lambda value: inner(math.log10(value)) if value > 0 else start


def ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Return about ``most`` round numbers inside [low, high]."""
    raw = (high - low) / most
    if not raw > 1 / LARGEST:
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def padded(values: Iterable[float], share: float = 0.08) -> tuple[float, float]:
    """Return the values' range, a little wider and never empty."""
    known = [min(max(value, -LARGEST), LARGEST) for value in values]
    low, high = min(known), max(known)
    margin = (high - low) * share or abs(high) * 0.01 or 1.0
    return low - margin, high + margin


def powers_of_ten(low: float, high: float) -> list[float]:
    """Return the powers of ten inside [low, high]."""
    return [10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


def document(title: str, width: float, height: float, body: Sequence[str]) -> str:
    """Return a standalone SVG file with a white background. ``body`` is markup."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" role="img" aria-label="{escape(title, quote=False)}">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )
