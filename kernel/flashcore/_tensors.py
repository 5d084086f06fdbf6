"""Operands, checks, streams and workspaces of the attention bindings."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

DTYPES = {torch.float16: 0, torch.bfloat16: 1}
DEVICE = "cuda"

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""The output, or (output, log-sum-exp)."""


class Operand(ctypes.Structure):
    """Mirror of FlashcoreOperand in flashcore/core/operand.h. Strides count elements."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("batch_stride", ctypes.c_int64),
        ("sequence_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
    ]


def make_operand(strides: Sequence[int], batch: int = 0, sequence: int = 1, head: int = 2) -> Operand:
    """Take the strides at these dimensions."""
    return Operand(data=None, batch_stride=strides[batch], sequence_stride=strides[sequence], head_stride=strides[head])


def get_strides(tensor: torch.Tensor | None, shape: Sequence[int]) -> Sequence[int]:
    """Return the tensor's strides, or those of a new tensor of this shape."""
    if tensor is not None:
        return tensor.stride()
    return [math.prod(max(1, size) for size in shape[dim + 1 :]) for dim in range(len(shape))]


def check_like_query(tensor: torch.Tensor, query: torch.Tensor, name: str) -> None:
    """ValueError unless device and dtype are the query's and the head dimension is contiguous."""
    check_device(query, query, "q")
    check_device(tensor, query, name)
    if tensor.dtype not in DTYPES or tensor.dtype != query.dtype:
        raise ValueError(f"{name}: must be float16 or bfloat16 like q, is {tensor.dtype}")
    check_columns(tensor, name)


def check_device(tensor: torch.Tensor, query: torch.Tensor, name: str, of: str = "q") -> None:
    """ValueError unless it is on the CUDA device of the query, or of the tensor with the name ``of``."""
    if tensor.device.type != DEVICE or tensor.device != query.device:
        raise ValueError(f"{name}: must be on the CUDA device of {of}, is on {tensor.device}")


def check_exactly(tensor: torch.Tensor, query: torch.Tensor, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """ValueError unless it is contiguous, of this dtype and shape, and on q's device."""
    check_device(tensor, query, name)
    if tensor.dtype != dtype or not tensor.is_contiguous() or tuple(tensor.shape) != shape:
        raise ValueError(
            f"{name}: must be contiguous {dtype} of shape {shape}, is {tensor.dtype} of shape {tuple(tensor.shape)}"
            f" with strides {tensor.stride()}"
        )


def check_table(table: torch.Tensor, query: torch.Tensor, batch: int) -> None:
    """ValueError unless it is int32, has a row per sequence, and is on the query's device."""
    check_device(table, query, "page_table")
    if table.dtype != torch.int32 or table.dim() != 2 or table.shape[0] != batch or (table.numel() and table.stride(1) != 1):  # noqa: PLR2004
        raise ValueError(
            f"page_table: must be int32 of shape ({batch}, pages of a sequence) with contiguous rows, is {table.dtype} of shape "
            f"{tuple(table.shape)} with strides {table.stride()}"
        )


def check_rank(tensor: torch.Tensor, rank: int, name: str, dimensions: str = "") -> None:
    """ValueError unless it has so many dimensions."""
    if tensor.dim() != rank:
        raise ValueError(f"{name}: must have {rank} dimensions{dimensions and ' ' + dimensions}, has {tensor.dim()}")


def check_rows(tensor: torch.Tensor, query: torch.Tensor, name: str, shape: Sequence[int]) -> None:
    """ValueError unless it has this shape, contiguous columns, and is on the query's device."""
    check_device(tensor, query, name)
    check_rank(tensor, len(shape), name)
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name}: must have shape {tuple(shape)}, is {tuple(tensor.shape)}")
    check_columns(tensor, name)


def check_columns(tensor: torch.Tensor, name: str) -> None:
    """ValueError unless the head dimension is contiguous."""
    if tensor.numel() and tensor.stride(-1) != 1:
        raise ValueError(f"{name}: the head dimension must be contiguous, its stride is {tensor.stride(-1)}")


def check_lengths(
    query: torch.Tensor, cumulative: torch.Tensor | None, others: Mapping[str, tuple[torch.Tensor | None, int]]
) -> int:
    """Return the number of sequences of ``cu_seqlens_q``. ValueError unless all are int32 with one number per sequence, plus the given ones."""
    if cumulative is None or cumulative.dim() != 1 or not cumulative.numel():
        raise ValueError(
            f"cu_seqlens_q: must have shape (batch + 1,), is {None if cumulative is None else tuple(cumulative.shape)}"
        )
    batch = cumulative.numel() - 1
    for name, (tensor, more) in {"cu_seqlens_q": (cumulative, 1), **others}.items():
        if tensor is not None:
            check_exactly(tensor, query, name, torch.int32, (batch + more,))
    return batch


def check_distinct(tensor: torch.Tensor, name: str) -> None:
    """ValueError unless every element has its own memory."""
    extent = 1  # elements from the first to the last, over the dimensions so far
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride < extent and tensor.numel():
            raise ValueError(
                f"{name}: elements share memory, its strides are {tuple(tensor.stride())} for shape {tuple(tensor.shape)}."
                " Pass a contiguous tensor"
            )
        extent += (size - 1) * stride


def to_int(value: Any, name: str) -> int:
    """Convert to an integer."""
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: must be a whole number, is {value!r:.40}") from None


def to_float(value: Any, name: str) -> float:
    """Convert to a float."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several numbers
        raise ValueError(f"{name}: must be a number, is {value!r:.40}") from None


def get_scale(scale: Any, head_dim: int) -> float:
    """Return the factor of the scores, by default 1/sqrt(d)."""
    return 1.0 / math.sqrt(head_dim) if scale is None else to_float(scale, "scale")


def get_ordinal(tensor: torch.Tensor) -> int:
    """Return the index of its device."""
    return tensor.device.index or 0


def count_multiprocessors(device: torch.device) -> int:
    """Count the device's multiprocessors."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def current_stream(device: int) -> int:
    """Return the current stream's handle without an object around it."""
    return int(torch._C._cuda_getCurrentRawStream(device))  # noqa: SLF001 - what PyTorch's own compiler calls


Key = tuple[str, int, int]  # operation, device, stream
Workspace = tuple[int, int, torch.Tensor]  # address, bytes, memory
_workspaces: dict[Key, Workspace] = {}
_capture_workspaces: dict[Key, tuple[int, Workspace]] = {}  # capture, workspace


def get_workspace(operation: str, device: int, stream: int, size: int) -> Workspace:
    """Return at least ``size`` bytes, zero at first, that only this operation uses.

    The caller keeps the result until its launch is in the stream, because another thread may replace it by a larger one. Then it may be
    freed: its memory came from this stream, so the next user runs after the launch.

    Launches of a stream run in order and share a workspace. A graph may be replayed on another stream, so every capture has its own, zeroed
    in the graph by its first launch. The default stream, 0, cannot be captured. Graphs of torch.compile must own all memory of their stream,
    so each launch there has a workspace that nothing keeps.
    """
    key = (operation, device, stream)
    if stream and torch.cuda.is_current_stream_capturing():
        return _get_capture_workspace(key, size)
    workspace = _workspaces.get(key)
    if workspace is None or workspace[1] < size:
        if _is_graph_stream(device, stream):
            return _make_workspace(device, size)
        workspace = _workspaces[key] = _make_workspace(device, 1 << (size - 1).bit_length())
    return workspace


def find_workspace(operation: str, device: int, stream: int) -> Workspace | None:
    """Return the workspace that later launches of this stream share, if there is one."""
    return _workspaces.get((operation, device, stream))


def _is_graph_stream(device: int, stream: int) -> bool:
    """Return whether torch.compile runs and records its graphs on this stream. Their memory pool refuses what outlives a run."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    try:
        manager = None if trees is None else trees.get_manager(device, create_if_none_exists=False)
    except AssertionError:  # this thread has no graphs
        manager = None
    return manager is not None and manager.stream.cuda_stream == stream


def _get_capture_workspace(key: Key, size: int) -> Workspace:
    capture = _get_capture_id(key[2])
    owner, workspace = _capture_workspaces.get(key, (0, None))
    if workspace is None or owner != capture or not capture or workspace[1] < size:
        workspace = _make_workspace(key[1], size)
        if _is_graph_stream(*key[1:]):
            return workspace
        _capture_workspaces[key] = capture, workspace  # frees the last capture's, which each of its replays zeroes first
    return workspace


def _make_workspace(device: int, size: int) -> Workspace:
    memory = _zeros(device, size)
    return int(memory.data_ptr()), memory.numel(), memory


def _zeros(device: int, size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8, device=torch.device(DEVICE, device))


def _get_capture_id(stream: int) -> int:
    """Return the capture's number, unique in the process, or 0 if the driver cannot tell."""
    get_info = _find_capture_info()
    status, number = ctypes.c_int(), ctypes.c_uint64()
    if get_info is None or get_info(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number)) != 0:
        return 0
    return number.value


@functools.cache
def _find_capture_info() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo
    except (OSError, AttributeError):
        return None
