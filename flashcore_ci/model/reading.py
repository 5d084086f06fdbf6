"""A reading is a number with its unit, or the reason why there is none. There are no sentinel numbers."""

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
        """Refuse NaN and infinity: those are ``Missing(not-finite)``."""
        if not math.isfinite(self.value):
            raise ValueError(f"a measured value is finite, not {self.value}")
        if not self.unit:
            raise ValueError("a measured value has a unit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """No number, and why. ``message`` is one line for a person."""

    code: Code
    message: str
    kind: Literal["missing"] = "missing"


Reading = Measured | Missing


def measured(value: float, unit: str) -> Reading:
    """``Measured`` for a finite ``value``, else ``Missing(not-finite)``."""
    if math.isfinite(value):
        return Measured(value=float(value), unit=unit)
    return Missing(code=Code.NOT_FINITE, message=f"the value is {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Repeated measurements of one quantity: one value a fresh process, in the order in which they ran."""

    values: tuple[float, ...]
    unit: str

    def __post_init__(self) -> None:
        """Refuse NaN and infinity."""
        if not all(math.isfinite(value) for value in self.values):
            raise ValueError("samples are finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many values lie between powers of two: ``counts[i]`` of them in [2^(first+i), 2^(first+i+1)), in ``unit``.

    The last count holds what is larger, the first what is smaller and not zero; ``zeros`` and what is not finite are apart.
    """

    first: int
    counts: tuple[int, ...]
    zeros: int
    not_finite: int
    unit: str

    def __post_init__(self) -> None:
        """Refuse counts below zero, and none at all."""
        if not self.counts or min(*self.counts, self.zeros, self.not_finite) < 0:
            raise ValueError("a histogram has counts, and none is below zero")
