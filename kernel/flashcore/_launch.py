"""One call of an entry function: what its tensors are, the arguments that were laid out for such tensors once, a stream and a workspace.

A call costs the host little more than the launch. What follows from shapes, strides and options alone is checked and laid out once, as
a ``Launch``, and found again by a dictionary; a later call fills the addresses into a copy of its words. What the tensors are is read
by one call of C for all of them, through the table of functions that PyTorch offers by DLPack: asked one by one in Python, their
properties would cost as much as the launch.
"""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from flashcore import _library
from flashcore._tensors import current_stream, workspace

WORD = 8  # bytes: every address in an argument structure stands on a multiple of it
OPERAND_WORDS = 4  # an address and three strides
REQUIRED = 3  # queries, keys and values: the first tensors of every call
WORDS_OF_TENSOR = 10  # at most: its address, its kind, and the sizes and strides of four dimensions
MOST_LAUNCHES = 4096  # prepared ones that are kept, of each function

Tensors = tuple[Any, ...]  # torch.Tensor or None


class Reader(ctypes.Structure):
    """Mirror of FlashcoreReader in flashcore/core/reader.h."""

    _fields_ = [("count", ctypes.c_int64), *((name, ctypes.c_void_p) for name in ("item", "is_instance", "read", "none", "type"))]


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI of dlpack.h."""

    MAJOR = 1
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in ("previous", "allocate", "managed", "to_object", "read", "stream")),
    ]


def reader(count: int) -> Reader:
    """What it takes to read so many tensors of PyTorch. LibraryError if it does not offer that."""
    offered = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if offered is None:
        raise _library.LibraryError("PyTorch 2.11 or newer is needed: this one has no table of DLPack's functions")
    python = ctypes.pythonapi
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    table = Exchange.from_address(pointer(offered, b"dlpack_exchange_api"))
    if table.major != Exchange.MAJOR or not table.read:
        raise _library.LibraryError(
            f"DLPack's functions of version {Exchange.MAJOR} are needed: PyTorch has version {table.major}"
        )
    item, is_instance = (
        ctypes.cast(function, ctypes.c_void_p) for function in (python.PyTuple_GetItem, python.PyObject_IsInstance)
    )
    return Reader(count=count, item=item, is_instance=is_instance, read=table.read, none=id(None), type=id(torch.Tensor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that one combination of shapes, strides and options fixes; ``words`` has no addresses yet."""

    words: array.array[int]
    device: int
    workspace_bytes: int
    like_query: bool  # the output is laid out as the query is
    out: tuple[int, ...]
    lse: tuple[int, ...]


class Launches(dict[Hashable, Launch]):
    """Prepared launches by what they depend on. Emptied when it grows beyond reason: shapes that never return are not kept."""

    def keep(self, key: Hashable, launch: Launch) -> Launch:
        """Keep and return it."""
        if len(self) >= MOST_LAUNCHES:
            self.clear()
        self[key] = launch
        return launch


class Entry:
    """An entry function, and where its structure has the addresses of a call's tensors.

    A call gives its tensors in the structure's order: the ``operands``, of which the first is the query and the last the output, the
    ``pointers``, which follow each other, and the log-sum-exp. ``prepare(tensors, options)`` lays out what they fix, or raises.
    """

    def __init__(
        self,
        operation: str,
        function: str,
        structure: type[ctypes.Structure],
        *,
        operands: Sequence[str],
        pointers: Sequence[str],
        prepare: Callable[[Tensors, Any], Launch],
    ) -> None:
        self.operation, self.function, self.prepare = operation, function, prepare
        self.names = (*operands, *pointers, "lse")
        self.many = len(operands)
        first = place(structure, operands[0])
        self.operands = slice(first, first + OPERAND_WORDS * self.many, OPERAND_WORDS)
        after = place(structure, pointers[0]) if pointers else 0
        self.pointers = slice(after, after + len(pointers))
        self.out, self.lse, self.workspace, self.stream = (
            place(structure, name) for name in ("out", "lse", "workspace", "stream")
        )
        self.blank = array.array("Q", bytes(WORD * WORDS_OF_TENSOR * len(self.names)))
        self.reader = reader(len(self.names))
        self.reads = ctypes.addressof(self.reader)
        self.launches = Launches()

    def __call__(self, tensors: Tensors, options: Hashable, *, return_lse: bool) -> Any:
        """Launch on the current stream of the query's device; the output, or (output, log-sum-exp) if that is asked for."""
        shared = _library.library(self.operation)
        found, count = self.blank[:], len(tensors)
        try:
            used = shared.flashcore_read(self.reads, tensors, found.buffer_info()[0])
        except RuntimeError as error:  # PyTorch's: a sparse tensor, or one without memory
            raise ValueError(f"{', '.join(self.names)}: one cannot be read: {str(error).splitlines()[0]}") from error
        query, out, lse = tensors[0], tensors[self.many - 1], tensors[-1]
        if used < 0 or query is None or tensors[1] is None or tensors[2] is None:
            unread = -1 - used if used < 0 else next(i for i in range(REQUIRED) if tensors[i] is None)
            raise ValueError(_unread(self.names[unread], tensors[unread]))
        if torch.is_grad_enabled() and (query.requires_grad or tensors[1].requires_grad or tensors[2].requires_grad):
            raise ValueError("q, k, v: this is a forward kernel without a gradient; call it under torch.no_grad()")
        key = (shared, options, found[count:used].tobytes())
        launch = self.launches.get(key) or self.launches.keep(key, self.prepare(tensors, options))
        filled, stream = launch.words[:], current_stream(launch.device)
        filled[self.operands] = found[: self.many]
        filled[self.pointers] = found[self.many : count - 1]
        if out is None:
            out = (
                torch.empty_like(query) if launch.like_query else torch.empty(launch.out, dtype=query.dtype, device=query.device)
            )
            filled[self.out] = out.data_ptr()
        if lse is None and return_lse:
            lse = torch.empty(launch.lse, dtype=torch.float32, device=query.device)
        if lse is not None:
            filled[self.lse] = lse.data_ptr()
        filled[self.workspace] = workspace(self.function, launch.device, stream, launch.workspace_bytes)
        filled[self.stream] = stream
        status = getattr(shared, self.function)(filled.buffer_info()[0])
        if status != _library.OK:
            _library.refuse(shared, status)
        return (out, lse) if return_lse else out


def _unread(name: str, given: Any) -> str:
    what = f"has {given.dim()}" if isinstance(given, torch.Tensor) else f"is {type(given).__name__}"
    return f"{name}: must be a tensor of at most 4 dimensions, {what}"


def words(arguments: ctypes.Structure) -> array.array[int]:
    """The structure's bytes as words, which copy quickly."""
    return array.array("Q", bytes(arguments))


def place(structure: type[ctypes.Structure], name: str) -> int:
    """Where an address stands among the words: that of a field, or of an operand's data, its first field."""
    return int(getattr(structure, name).offset) // WORD
