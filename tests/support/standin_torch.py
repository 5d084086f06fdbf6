"""As much of torch as the bindings of ``kernel/flashcore`` use, without numbers: shapes, strides, types, devices and addresses.

The bindings check arguments and fill a structure; a library that only keeps what it was given stands in for the kernels. So their
tests need neither torch nor a GPU.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__version__ = "2.11.0"
ADDRESSES = itertools.count(0x1000, 0x1000)


@dataclass(frozen=True)
class Device:
    type: str
    index: int | None = None


@dataclass(frozen=True)
class Dtype:
    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"


float16, bfloat16, float32, float64, int32, int64, uint8, float8_e4m3fn, float8_e5m2 = (
    Dtype(name)
    for name in ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "float8_e4m3fn", "float8_e5m2")
)
CUDA = Device("cuda", 0)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(1, size) for size in shape[place + 1 :]) for place in range(len(shape)))


@dataclass(eq=False)
class Tensor:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Dtype = float16
    device: Device = CUDA
    requires_grad: bool = False
    value: float | None = None
    address: int = field(default_factory=lambda: next(ADDRESSES))
    written: list[tuple[Any, Any]] = field(default_factory=list)

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def size(self, dim: int) -> int:
        return self.shape[dim]

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def item(self) -> float | None:
        return self.value

    def data_ptr(self) -> int:
        return self.address

    def is_contiguous(self) -> bool:
        return self.strides == contiguous(self.shape)

    def transpose(self, first: int, second: int) -> Tensor:
        order = list(range(self.dim()))
        order[first], order[second] = order[second], order[first]
        return self.like(tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order))

    def flatten(self, first: int, last: int) -> Tensor:
        assert (first, last) == (0, 1)
        return self.like((self.shape[0] * self.shape[1], *self.shape[2:]), self.strides[1:])

    def unflatten(self, dim: int, sizes: tuple[int, int]) -> Tensor:
        assert dim == 0
        return self.like((*sizes, *self.shape[1:]), (sizes[1] * self.strides[0], *self.strides))

    def view(self, *shape: Any) -> Tensor:
        if isinstance(shape[0], Dtype):
            return Tensor(self.shape, self.strides, shape[0], self.device, address=self.address)
        return self.like(shape, contiguous(shape))

    def __getitem__(self, index: tuple[slice, slice]) -> Tensor:
        stop = min(self.shape[1], index[1].stop)
        return self.like((self.shape[0], stop - (index[1].start or 0), *self.shape[2:]), self.strides)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.written.append((index[1], value))

    def like(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
        return Tensor(shape, strides, self.dtype, self.device, address=self.address)


def empty(*shape: Any, dtype: Dtype = float16, device: Device = CUDA) -> Tensor:
    sizes = tuple(shape[0]) if shape and not isinstance(shape[0], int) else shape
    return Tensor(sizes, contiguous(sizes), dtype, device)


zeros = empty


def empty_like(tensor: Tensor) -> Tensor:
    return Tensor(tensor.shape, tensor.strides, tensor.dtype, tensor.device)


def full(shape: Sequence[int], value: float, *, dtype: Dtype, device: Device) -> Tensor:
    if dtype is int32 and not -(2**31) <= value < 2**31:
        raise RuntimeError("value cannot be converted to type int without overflow")
    return Tensor(tuple(shape), contiguous(shape), dtype, device, value=value)


def arange(start: int, end: int, step: int, *, dtype: Dtype, device: Device) -> Tensor:
    return Tensor((len(range(start, end, step)),), (1,), dtype, device, value=step)


def is_grad_enabled() -> bool:
    return True


def make_capsule(major: int = 1) -> Any:
    """Make a DLPack capsule like PyTorch's: its table starts with the version, and the sixth function reads."""
    table = (ctypes.c_uint64 * 7)(major, *[0xF00] * 6)
    _tables.append(table)
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return capsule(ctypes.addressof(table), _TABLE, None)


_TABLE, _tables = b"dlpack_exchange_api", []  # a capsule keeps neither
Tensor.__dlpack_c_exchange_api__ = make_capsule()  # type: ignore[attr-defined]

dtype, device = Dtype, Device
state = SimpleNamespace(stream=7, capturing=False, compiling=False)
cuda = SimpleNamespace(
    is_current_stream_capturing=lambda: state.capturing,
    get_device_properties=lambda device: SimpleNamespace(multi_processor_count=132),
)
_C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: state.stream)


class Operators(SimpleNamespace):
    """``torch.ops.NAMESPACE``: each operator is its kernel for CUDA, without a dispatcher."""


class Library:
    """Definitions and kernels of one namespace, which a second library replaces."""

    def __init__(self, namespace: str, kind: str) -> None:
        assert kind == "DEF"
        self.ns, self.operators = namespace, Operators()
        setattr(ops, namespace, self.operators)

    def define(self, schema: str) -> None:
        setattr(self.operators, schema.partition("(")[0], SimpleNamespace(schema=schema))

    def impl(self, name: str, function: Any, key: str) -> None:
        assert key == "CUDA"
        getattr(self.operators, name).default = function


def ignore(*_arguments: Any, **_options: Any) -> None:
    """Register nothing: shapes and gradients need the real dispatcher."""


ops = SimpleNamespace()
library = SimpleNamespace(Library=Library, register_fake=ignore, register_autograd=ignore)
autograd = SimpleNamespace(Function=object)
compiler = SimpleNamespace(is_compiling=lambda: state.compiling)
