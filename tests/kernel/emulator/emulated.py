"""Call an emulated library: operands in its memory, argument structs read from the headers, results as floats."""

from __future__ import annotations

import ctypes
import math
import re
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import mul
from pathlib import Path
from typing import Any

KERNEL = Path(__file__).parents[3] / "kernel"
DTYPES = {"fp16": 0, "bf16": 1, "e4m3": 2}
BYTES = {"fp16": 2, "bf16": 2, "e4m3": 1, "fp32": 4, "int32": 4, "byte": 1}
_TYPES = {"uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "float": ctypes.c_float}
_FIELD = re.compile(r"^\s+(?:const )?(\w+)(\s*\*)?\s+(\*?)(\w+);", re.MULTILINE)


class ViolationError(Exception):
    """What the emulator, or a launcher, refused."""


@cache
def structure(name: str) -> type[ctypes.Structure]:
    """Return a struct of the C ABI, as its header has it."""
    for header in sorted((KERNEL / "include").rglob("*.h")):
        found = re.search(rf"^struct {name} {{\n(.*?)^}};", header.read_text(), re.MULTILINE | re.DOTALL)
        if found is None:
            continue
        fields: list[tuple[str, Any]] = []
        for kind, pointer, other, field in _FIELD.findall(found[1]):
            is_pointer = bool(pointer or other)
            fields.append((field, ctypes.c_void_p if is_pointer else _TYPES[kind] if kind in _TYPES else structure(kind)))
        return type(name, (ctypes.Structure,), {"_fields_": fields})
    raise KeyError(name)


@cache
def _e4m3_values() -> list[float]:
    def value(bits: int) -> float:
        exponent, mantissa = bits >> 3 & 15, bits & 7
        if bits & 0x7F == 0x7F:
            return math.nan
        magnitude = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
        return -magnitude if bits & 0x80 else magnitude

    return [value(bits) for bits in range(256)]


@cache
def _e4m3_magnitudes() -> list[float]:
    return _e4m3_values()[:127]  # in ascending order, and even ones have even bits


def _to_e4m3(x: float) -> int:
    magnitudes = _e4m3_magnitudes()
    above = min(bisect_left(magnitudes, abs(x)), 126)
    below = max(above - 1, 0)
    distances = abs(x) - magnitudes[below], magnitudes[above] - abs(x)
    bits = above if distances[1] < distances[0] or (distances[1] == distances[0] and above % 2 == 0) else below
    return bits | (128 if math.copysign(1.0, x) < 0 else 0)


def encode(values: Sequence[float], kind: str) -> bytes:
    """Round numbers to a type and return its bytes."""
    if kind == "e4m3":
        return bytes(_to_e4m3(x) for x in values)
    if kind == "bf16":
        words = [int.from_bytes(struct.pack("<f", x), "little") for x in values]
        return b"".join(((w + 0x7FFF + (w >> 16 & 1)) >> 16 & 0xFFFF).to_bytes(2, "little") for w in words)
    return struct.pack(f"<{len(values)}{ {'fp16': 'e', 'fp32': 'f', 'int32': 'i', 'byte': 'B'}[kind] }", *values)


def decode(data: bytes, kind: str) -> list[float]:
    """Return the numbers of so many bytes."""
    if kind == "e4m3":
        return [_e4m3_values()[bits] for bits in data]
    if kind == "bf16":
        data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
        kind = "fp32"
    return list(
        struct.unpack(f"<{len(data) // BYTES[kind]}{ {'fp16': 'e', 'fp32': 'f', 'int32': 'i', 'byte': 'B'}[kind] }", data)
    )


@dataclass
class Tensor:
    """An operand in the emulator's memory, contiguous in its shape."""

    library: Library
    address: int
    shape: tuple[int, ...]
    kind: str

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def values(self) -> list[float]:
        """Return the numbers that are in memory now. Refuse bytes that nobody has written."""
        size = self.count * BYTES[self.kind]
        if size == 0:
            return []
        unwritten = self.library.c.emulator_first_unwritten(ctypes.c_void_p(self.address), ctypes.c_size_t(size))
        if unwritten >= 0:
            raise ViolationError(f"element {unwritten // BYTES[self.kind]} of shape {self.shape} has not been written")
        return decode(ctypes.string_at(self.address, size), self.kind)

    def poison(self, rows: Iterable[int], columns: int) -> None:
        """Write NaN into these rows of so many columns."""
        size = columns * BYTES[self.kind]
        for row in rows:
            self.library.c.emulator_write(ctypes.c_void_p(self.address + row * size), b"\xff" * size, ctypes.c_size_t(size))

    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))


class Library:
    """A library that ``build.build`` made."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.c.emulator_allocate.restype = ctypes.c_void_p
        self.c.emulator_first_unwritten.restype = ctypes.c_int64
        self.c.flashcore_error_string.restype = ctypes.c_char_p
        self.c.emulator_violation.restype = ctypes.c_char_p

    def configure(
        self, *, seed: int = 1, multiprocessors: int = 2, late: bool = True, races: bool = True, independent: bool = False
    ) -> None:
        """Choose the order of threads and copies. The launchers ask once for the multiprocessors."""
        self.c.emulator_configure(ctypes.c_uint64(seed), multiprocessors, int(late), int(races), int(independent))

    def empty(self, name: str, shape: Iterable[int], kind: str) -> Tensor:
        """Return memory that holds NaN and counts as not written."""
        shape = tuple(shape)
        size = math.prod(shape) * BYTES[kind]
        return Tensor(self, self.c.emulator_allocate(ctypes.c_size_t(size), name.encode()), shape, kind)

    def tensor(self, name: str, shape: Iterable[int], values: Sequence[float], kind: str) -> Tensor:
        """Return memory that holds these numbers."""
        tensor = self.empty(name, shape, kind)
        data = encode(values, kind)
        if data:
            self.c.emulator_write(ctypes.c_void_p(tensor.address), data, ctypes.c_size_t(len(data)))
        return tensor

    def zeros(self, name: str, size: int) -> Tensor:
        """Return so many bytes of zeros."""
        tensor = self.empty(name, (size,), "byte")
        self.c.emulator_write(ctypes.c_void_p(tensor.address), bytes(size), ctypes.c_size_t(size))
        return tensor

    def free(self) -> None:
        """Free all operands."""
        self.c.emulator_free_all()

    def call(self, function: str, arguments: ctypes.Structure, *, replays: bool = False) -> None:
        """Call a launcher. Raise what it, or the emulator, refuses.

        With ``replays`` a kernel may load shared memory that nobody has written, if that has no effect (``src/replay.cpp``).
        """
        arguments.size = ctypes.sizeof(arguments)
        self.c.emulator_replay(int(replays))
        if getattr(self.c, function)(ctypes.byref(arguments)) != 0:
            text = self.c.flashcore_error_string().decode()
            raise ViolationError(self.c.emulator_violation().decode() or text)


def operand(tensor: Tensor | None, order: str = "bshd") -> Any:
    """Return the FlashcoreOperand of a tensor whose dimensions are in this order, or without a batch."""
    result = structure("FlashcoreOperand")()
    if tensor is None:
        return result
    strides = dict(zip(order[-len(tensor.shape) :], tensor.strides(), strict=True))
    result.data = tensor.address
    result.batch_stride, result.sequence_stride, result.head_stride = (strides.get(name, 0) for name in "bsh")
    return result


def attend(
    q: Sequence[float],
    keys: Sequence[Sequence[float]],
    values: Sequence[Sequence[float]],
    scale: float,
    cap: float = 0.0,
    sink: float | None = None,
) -> tuple[list[float], float]:
    """Attend from one query to these keys in float64. Return the output and the log-sum-exp."""
    if not keys:
        return [0.0] * len(q), -math.inf if sink is None else sink
    scores = [scale * sum(map(mul, q, key)) for key in keys]
    if cap > 0:
        scores = [cap * math.tanh(score / cap) for score in scores]
    largest = max(scores) if sink is None else max(sink, *scores)
    weights = [math.exp(score - largest) for score in scores]
    total = sum(weights) + (0.0 if sink is None else math.exp(sink - largest))
    out = [sum(map(mul, weights, column)) / total for column in zip(*values, strict=True)]
    return out, largest + math.log(total)
