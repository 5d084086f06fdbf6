"""Poison and compare tensors, part by part so that memory stays bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PART = 1 << 26  # elements
SHIFT = 0.3
ALLOWED_TIMES = 2.0
"""What a kernel's error may be, times that of PyTorch in the inputs' type."""
SMALLEST, POWERS = -40, 48  # errors are counted by powers of two from 2^-40 to 2^8

# Bit patterns by element size in bytes: NaNs in every IEEE format of that size, which arithmetic does not produce.
POISONS = (
    {1: 0x7F, 2: 0x7FB7, 4: 0x7FA5B6C7, 8: 0x7FF5A6B7C8D9EAFB},
    {1: -0x01, 2: -0x0037, 4: -0x0025364A, 8: -0x0005263748596A7C},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The largest absolute difference, its index, and both values."""

    value: float
    index: tuple[int, ...]
    first: float
    second: float


def bits(tensor: Any) -> Any:
    """View a tensor's elements as integers of the same size."""
    import torch

    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(integer)


def poison(outputs: Mapping[str, Any], which: int) -> None:
    """Fill every output with poison ``which`` (0 or 1)."""
    for tensor in outputs.values():
        bits(tensor).fill_(POISONS[which][tensor.element_size()])


def still_poisoned(tensor: Any, which: int) -> Any:
    """Return a mask of the elements that hold poison ``which``."""
    return bits(tensor) == POISONS[which][tensor.element_size()]


def same_bits(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether all outputs are bitwise equal."""
    import torch

    return all(torch.equal(bits(first[name]), bits(second[name])) for name in first)


def differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> Any:
    """Return a tensor, whether any bit differs, without synchronizing."""
    import torch

    return torch.stack([(bits(first[name]) != bits(second[name])).any() for name in first]).any()


def may_change(used: Any, fresh: Any) -> bool:
    """Return whether ``fresh`` may be copied to ``used``: floats that do not overlap."""
    import torch

    return isinstance(used, torch.Tensor) and used.is_floating_point() and used.shape == fresh.shape and 0 not in used.stride()


def refuse_changed(used: Mapping[str, Any], fresh: Mapping[str, Any]) -> None:
    """Raise ValueError if an input is not what its seed gives."""
    import torch

    for name, tensor in used.items():
        if isinstance(tensor, torch.Tensor) and not torch.equal(bits(tensor), bits(fresh[name])):
            raise ValueError(f"input {name} changed: run() writes to it, or inputs() does not depend on its seed alone")


def upcast(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with every floating tensor in float64."""
    import torch

    floats = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor) and value.is_floating_point()}
    return {**inputs, **{name: value.to(torch.float64) for name, value in floats.items()}}


def largest_difference(first: Any, second: Any) -> Difference:
    """Return the largest |first - second|. Any NaN is larger than all numbers."""
    import torch

    worst = Difference(value=0.0, index=(), first=0.0, second=0.0)
    for offset, x, y in _parts(first, second):
        largest, place = (x - y).abs().masked_fill(x == y, 0.0).max(dim=0)
        value, at, one, other = torch.stack([largest, place.double(), x.take(place), y.take(place)]).tolist()  # waits once
        if not (value <= worst.value):
            worst = Difference(value=value, index=_unravel(offset + int(at), first.shape), first=one, second=other)
        if math.isnan(value):
            break
    return worst


def mean_error(outputs: Any, reference: Any) -> float:
    """Return the sum of errors over that of |reference|, or NaN."""
    import torch

    if outputs.shape != reference.shape:
        return math.nan
    wrong = size = torch.zeros((), dtype=torch.float64, device=outputs.device)
    for _, x, y in _parts(outputs, reference):
        wrong = wrong + (x - y).abs().masked_fill(x == y, 0.0).sum()
        size = size + y.abs().masked_fill(~y.isfinite(), 0.0).sum()
    return float(wrong) / float(size) if float(size) else float(wrong)


def rms_error(outputs: Any, reference: Any) -> float:
    """Return the root of the sum of squared errors over that of the reference. NaN stays NaN."""
    import torch

    wrong = size = 0.0
    for _, x, y in _parts(outputs, reference):
        squares = (x - y).square().masked_fill(x == y, 0.0), y.square().masked_fill(~y.isfinite(), 0.0)
        more_wrong, more = torch.stack([each.sum() for each in squares]).tolist()
        wrong, size = wrong + more_wrong, size + more
    return divide(math.sqrt(wrong), math.sqrt(size))


def divide(error: float, allowed: float) -> float:
    """Return the quotient: of nothing allowed 0, or infinity if there is an error. NaN stays NaN."""
    return error / allowed if allowed else 0.0 if error == 0 else math.inf * error


def error_histogram(first: Any, second: Any) -> dict[str, Any]:
    """Count |first - second| by powers of two, as ``model.reading.Histogram``."""
    import torch

    counts = [0] * (POWERS + 2)  # of the powers, of zeros, of what is not finite
    for _, x, y in _parts(first, second):
        distance = (x - y).abs().masked_fill(x == y, 0.0)
        power = (torch.frexp(distance).exponent.long() - 1 - SMALLEST).clamp(0, POWERS - 1)
        places = power.masked_fill(distance == 0, POWERS).masked_fill(~distance.isfinite(), POWERS + 1)
        counts = [sum(pair) for pair in zip(counts, torch.bincount(places, minlength=POWERS + 2).tolist(), strict=True)]
    return {"first": SMALLEST, "counts": counts[:POWERS], "zeros": counts[POWERS], "not_finite": counts[POWERS + 1]}


def rounding_error(reference: Any) -> float:
    """Return the largest |ref + 0.3 - 0.3 - ref|, as FlashAttention's tests do."""
    largest = 0.0
    for _, part in _chunks(reference):
        if part.numel():
            error = (part + SHIFT - SHIFT - part).abs().masked_fill(~part.isfinite(), 0.0)
            largest = max(largest, error.max().item())
    return largest


def bad_values(tensor: Any, reference: Any, unwritten: Any) -> int:
    """Count elements never written, or finite in the reference only."""
    chunks = _chunks(tensor, reference, unwritten)
    return sum(int(((~given.isfinite() & expected.isfinite()) | hole).sum()) for _, given, expected, hole in chunks)


def _parts(first: Any, second: Any) -> Iterator[tuple[int, Any, Any]]:
    for start, a, b in _chunks(first, second):
        yield start, a.double(), b.double()


def _chunks(*tensors: Any) -> Iterator[tuple[Any, ...]]:
    flat = [tensor.reshape(-1) for tensor in tensors]
    for start in range(0, flat[0].numel(), PART):
        yield start, *(each[start : start + PART] for each in flat)


def _unravel(index: int, shape: Any) -> tuple[int, ...]:
    coordinates: tuple[int, ...] = ()
    for size in reversed(tuple(shape)):
        index, coordinate = divmod(index, size)
        coordinates = (coordinate, *coordinates)
    return coordinates
