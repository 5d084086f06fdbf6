"""Readings: a number with its unit, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finite number in ``unit`` (``%``, ``ms``, ``count``, ``byte``, ``ratio``, ``MHz``, ``Mcycle``, ``abs``)."""

    value: float
    unit: str
    kind: Literal["measured"] = "measured"

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"a measured value is finite, not {self.value}")
        if not self.unit:
            raise ValueError("a measured value has a unit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The reason why there is no number. ``message`` is one line."""

    code: Code
    message: str
    kind: Literal["missing"] = "missing"


Reading = Measured | Missing


def measured(value: float, unit: str) -> Reading:
    """Return ``Measured`` for a finite ``value``, else ``Missing(not-finite)``."""
    if math.isfinite(value):
        return Measured(value=float(value), unit=unit)
    return Missing(code=Code.NOT_FINITE, message=f"the value is {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One value per fresh process, in their order."""

    values: tuple[float, ...]
    unit: str

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) for value in self.values):
            raise ValueError("samples are finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of values in ``unit``: ``counts[i]`` from 2^(first+i) to 2^(first+i+1).

    The first count includes smaller values above zero, the last one larger values.
    """

    first: int
    counts: tuple[int, ...]
    zeros: int
    not_finite: int
    unit: str

    def __post_init__(self) -> None:
        if not self.counts or min(*self.counts, self.zeros, self.not_finite) < 0:
            raise ValueError("a histogram has counts, and none is below zero")
