"""Poison and compare tensors, part by part so that memory stays bounded."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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


Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Pending(Generic[Result]):
    """A result whose numbers are still on the GPU. ``read`` makes it of ``numbers`` (float64, one dimension).

    Numbers that the host reads one by one wait for the GPU each time: up to 20 ms where a dozen processes take turns on it.
    """

    numbers: Any
    read: Callable[[Sequence[float]], Result]

    def result(self) -> Result:
        """Wait for this result alone."""
        return self.read(self.numbers.tolist())


def read_all(pending: Mapping[Key, Pending[Any]]) -> dict[Key, Any]:
    """Wait once for the numbers of all, and return their results. The first ``read`` that raises ends it."""
    import torch

    if not pending:
        return {}
    device = max((one.numbers.device for one in pending.values()), key=lambda device: device.type == "cuda")
    numbers = torch.cat([one.numbers.to(device) for one in pending.values()]).tolist()
    found, end = {}, 0
    for key, one in pending.items():
        start, end = end, end + one.numbers.numel()
        found[key] = one.read(numbers[start:end])
    return found


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

    pairs = {name: (tensor, fresh[name]) for name, tensor in used.items() if isinstance(tensor, torch.Tensor)}
    for name, changed in read_all({name: _changed(*pair) for name, pair in pairs.items()}).items():
        if changed:
            raise ValueError(f"input {name} changed: run() writes to it, or inputs() does not depend on its seed alone")


def _changed(used: Any, fresh: Any) -> Pending[bool]:
    import torch

    first, second = bits(used), bits(fresh)
    comparable = (first.shape, first.dtype, first.device) == (second.shape, second.dtype, second.device)
    changed = (first != second).any() if comparable else torch.ones(())
    return Pending(changed.double().reshape(1), lambda numbers: numbers[0] != 0.0)


def upcast(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with every floating tensor in float64."""
    import torch

    floats = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor) and value.is_floating_point()}
    return {**inputs, **{name: value.to(torch.float64) for name, value in floats.items()}}


def largest_difference(first: Any, second: Any) -> Pending[Difference]:
    """Return the largest |first - second|. Any NaN is larger than all numbers."""
    import torch

    found, offsets = [torch.zeros(0, dtype=torch.float64, device=first.device)], []
    for offset, x, y in _parts(first, second):
        largest, place = (x - y).abs().masked_fill(x == y, 0.0).max(dim=0)
        found.append(torch.stack([largest, place.double(), x.take(place), y.take(place)]))
        offsets.append(offset)
    shape = tuple(first.shape)

    def read(numbers: Sequence[float]) -> Difference:
        worst = Difference(value=0.0, index=(), first=0.0, second=0.0)
        for part, offset in enumerate(offsets):
            value, at, one, other = numbers[4 * part : 4 * part + 4]
            if not (value <= worst.value):
                worst = Difference(value=value, index=_unravel(offset + int(at), shape), first=one, second=other)
            if math.isnan(value):
                break
        return worst

    return Pending(torch.cat(found), read)


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


def rms_error(outputs: Any, reference: Any) -> Pending[float]:
    """Return the root of the sum of squared errors over that of the reference. NaN stays NaN."""
    import torch

    found = [torch.zeros(0, dtype=torch.float64, device=outputs.device)]
    for _, x, y in _parts(outputs, reference):
        squares = (x - y).square().masked_fill(x == y, 0.0), y.square().masked_fill(~y.isfinite(), 0.0)
        found.append(torch.stack([each.sum() for each in squares]))
    return Pending(torch.cat(found), lambda numbers: divide(_root(numbers[::2]), _root(numbers[1::2])))


def _root(squares: Sequence[float]) -> float:
    return math.sqrt(functools.reduce(operator.add, squares, 0.0))  # sum() of Python 3.12 rounds otherwise


def divide(error: float, allowed: float) -> float:
    """Return the quotient: of nothing allowed 0, or infinity if there is an error. NaN stays NaN."""
    return error / allowed if allowed else 0.0 if error == 0 else math.inf * error


def error_histogram(first: Any, second: Any) -> Pending[dict[str, Any]]:
    """Count |first - second| by powers of two, as ``model.reading.Histogram``."""
    import torch

    counts = torch.zeros(POWERS + 2, dtype=torch.float64, device=first.device)  # of the powers, of zeros, of what is not finite
    for _, x, y in _parts(first, second):
        distance = (x - y).abs().masked_fill(x == y, 0.0)
        power = (torch.frexp(distance).exponent.double() - 1 - SMALLEST).clamp(0, POWERS - 1)
        places = power.masked_fill(distance == 0, POWERS).masked_fill(~distance.isfinite(), POWERS + 1)
        counts += torch.histc(places, bins=POWERS + 2, min=-0.5, max=POWERS + 1.5)  # bincount would wait for the GPU

    def read(numbers: Sequence[float]) -> dict[str, Any]:
        whole = [int(number) for number in numbers]
        return {"first": SMALLEST, "counts": whole[:POWERS], "zeros": whole[POWERS], "not_finite": whole[POWERS + 1]}

    return Pending(counts, read)


def rounding_error(reference: Any) -> Pending[float]:
    """Return the largest |ref + 0.3 - 0.3 - ref|, as FlashAttention's tests do."""
    import torch

    largest = [torch.zeros(1, dtype=torch.float64, device=reference.device)]
    for _, part in _chunks(reference):
        if part.numel():
            error = (part + SHIFT - SHIFT - part).abs().masked_fill(~part.isfinite(), 0.0)
            largest.append(error.max().double().reshape(1))
    return Pending(torch.cat(largest), max)


def bad_values(tensor: Any, reference: Any, unwritten: Any) -> Pending[int]:
    """Count elements never written, or finite in the reference only."""
    import torch

    count = torch.zeros(1, dtype=torch.float64, device=tensor.device)
    for _, given, expected, hole in _chunks(tensor, reference, unwritten):
        count += ((~given.isfinite() & expected.isfinite()) | hole).sum()
    return Pending(count, lambda numbers: int(numbers[0]))


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
