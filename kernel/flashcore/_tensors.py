"""What the bindings of the attention kernels share: operands, checks, streams and workspaces."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch

DTYPES = {torch.float16: 0, torch.bfloat16: 1}
DEVICE = "cuda"


class Operand(ctypes.Structure):
    """Mirror of FlashcoreOperand in flashcore/core/operand.h; strides count elements."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("batch_stride", ctypes.c_int64),
        ("sequence_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
    ]


def operand(strides: Sequence[int], batch: int = 0, sequence: int = 1, head: int = 2) -> Operand:
    """Strides by the dimensions' positions; the address comes with each call."""
    return Operand(data=None, batch_stride=strides[batch], sequence_stride=strides[sequence], head_stride=strides[head])


def strides(tensor: torch.Tensor | None, shape: Sequence[int]) -> Sequence[int]:
    """A tensor's own, or those of one of this shape that is yet to be made."""
    if tensor is not None:
        return tensor.stride()
    return [math.prod(max(1, size) for size in shape[place + 1 :]) for place in range(len(shape))]


def check_like_query(tensor: torch.Tensor, query: torch.Tensor, name: str) -> None:
    """What the C side cannot see of a tensor of elements: device, type, and a head dimension without gaps."""
    check_device(query, query, "q")
    check_device(tensor, query, name)
    if tensor.dtype not in DTYPES or tensor.dtype != query.dtype:
        raise ValueError(f"{name}: must be float16 or bfloat16 like q, is {tensor.dtype}")
    if tensor.numel() and tensor.stride(-1) != 1:
        raise ValueError(f"{name}: the head dimension must be contiguous, its stride is {tensor.stride(-1)}")


def check_device(tensor: torch.Tensor, query: torch.Tensor, name: str) -> None:
    """ValueError unless it is on the CUDA device of the query."""
    if tensor.device.type != DEVICE or tensor.device != query.device:
        raise ValueError(f"{name}: must be on the CUDA device of q, is on {tensor.device}")


def check_exactly(tensor: torch.Tensor, query: torch.Tensor, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """ValueError unless it is contiguous, of this type and shape, and on the device of the query."""
    check_device(tensor, query, name)
    if tensor.dtype != dtype or not tensor.is_contiguous() or tuple(tensor.shape) != shape:
        raise ValueError(
            f"{name}: must be contiguous {dtype} of shape {shape}, is {tensor.dtype} of shape {tuple(tensor.shape)}"
            f" with strides {tensor.stride()}"
        )


def whole(value: Any, name: str) -> int:
    """The value as a whole number. ValueError if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: must be a whole number, is {value!r:.40}") from None


def number(value: Any, name: str) -> float:
    """The value as a number. ValueError if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: must be a number, is {value!r:.40}") from None


def ordinal(tensor: torch.Tensor) -> int:
    """The number of its device."""
    return tensor.device.index or 0


def multiprocessors(device: torch.device) -> int:
    """How many the device has."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def current_stream(device: int) -> int:
    """The handle of the device's current stream: as ``torch.cuda.current_stream``, without an object around it."""
    return int(torch._C._cuda_getCurrentRawStream(device))  # noqa: SLF001 - what PyTorch's own compiler calls


_held: dict[tuple[str, int, int], tuple[int, int, torch.Tensor]] = {}  # bytes, address
_captured: dict[tuple[str, int, int], tuple[int, torch.Tensor]] = {}


def workspace(operation: str, device: int, stream: int, size: int) -> int:
    """The address of at least ``size`` bytes that were zero once, and which only launches of this operation have used since.

    Launches of one stream follow each other and share theirs. A graph may be replayed beside the stream that it was captured
    on, so a capture gets its own, zeroed in the graph by its first launch: every replay begins anew. The default stream, 0,
    cannot be captured.
    """
    key = (operation, device, stream)
    if stream and torch.cuda.is_current_stream_capturing():
        return _of_capture(key, size)
    held = _held.get(key)
    if held is None or held[0] < size:
        zeros = _zeros(device, size)
        held = _held[key] = (zeros.numel(), int(zeros.data_ptr()), zeros)
    return held[1]


def _of_capture(key: tuple[str, int, int], size: int) -> int:
    capture = _capture_number(key[2])
    number, held = _captured.get(key, (0, None))
    if held is None or number != capture or not capture or held.numel() < size:
        held = _zeros(key[1], size)
        _captured[key] = capture, held  # the last capture's goes: whatever takes that memory then, a replay zeroes it first
    return int(held.data_ptr())


def _zeros(device: int, size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8, device=torch.device(DEVICE, device))


def _capture_number(stream: int) -> int:
    """Which capture the stream is in, a number that no other capture of the process has; 0 where the driver does not say."""
    ask = _capture_info()
    status, number = ctypes.c_int(), ctypes.c_uint64()
    if ask is None or ask(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number)) != 0:
        return 0
    return number.value


@functools.cache
def _capture_info() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo
    except (OSError, AttributeError):
        return None
