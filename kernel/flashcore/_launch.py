"""Launch an entry function with little time on the host.

Shapes, strides and options are checked once and stored as a ``Launch``. A later call copies its words and fills in the addresses. One C
call reads all tensors through DLPack, because reading them in Python costs as much as the launch.
"""

from __future__ import annotations

import array
import ctypes
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from flashcore import _library
from flashcore._tensors import current_stream, get_ordinal, get_workspace

WORD = 8  # bytes: every address in an argument structure is aligned to it
OPERAND_WORDS = 4  # an address and three strides
REQUIRED = 3  # query, keys and values: the first tensors of every call
MAX_WORDS_PER_TENSOR = 10  # its address, its kind, and the sizes and strides of four dimensions
MAX_LAUNCHES = 4096  # that each entry function keeps

Tensors = tuple[Any, ...]  # torch.Tensor or None
MISSING = object()
"""The result of a call that may only repeat a launch, where no earlier call was like it."""


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


def make_reader(count: int) -> Reader:
    """Collect the functions that read ``count`` tensors."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        raise _library.LibraryError(f"PyTorch {torch.__version__} has no DLPack function table. Install PyTorch 2.11 or newer")
    python = ctypes.pythonapi
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    table = Exchange.from_address(get_pointer(capsule, b"dlpack_exchange_api"))
    if table.major != Exchange.MAJOR or not table.read:
        raise _library.LibraryError(
            f"PyTorch's DLPack function table has version {table.major}. Install a PyTorch with version {Exchange.MAJOR}"
        )
    item, is_instance = (
        ctypes.cast(function, ctypes.c_void_p) for function in (python.PyTuple_GetItem, python.PyObject_IsInstance)
    )
    return Reader(count=count, item=item, is_instance=is_instance, read=table.read, none=id(None), type=id(torch.Tensor))


Launched = tuple["Entry", ctypes.CDLL, "Launch", Tensors, tuple[Any, Any]]
"""What a call launched: entry, library, launch, tensors, output and log-sum-exp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The arguments for one combination of shapes, strides and options, without addresses."""

    words: array.array[int]
    device: int
    workspace_bytes: int
    like_query: bool  # a new output has the query's strides
    out: tuple[int, ...]  # shape
    lse: tuple[int, ...]  # shape


def make_launch(
    arguments: ctypes.Structure,
    query: torch.Tensor,
    lse: tuple[int, ...],
    *,
    workspace_bytes: int,
    like_query: bool | None = None,
) -> Launch:
    """Store the arguments of a launch whose output has the query's shape. ``like_query``: by default, if the query is contiguous."""
    return Launch(
        words=to_words(arguments),
        device=get_ordinal(query),
        workspace_bytes=workspace_bytes,
        like_query=query.is_contiguous() if like_query is None else like_query,
        out=tuple(query.shape),
        lse=lse,
    )


class Recorder(threading.local):
    """The launches of this thread, while an operator collects them."""

    launches: list[Launched] | None = None


recorder = Recorder()


class Launches(dict[Hashable, Launch]):
    """Launches by their keys. Emptied when full, so that old shapes do not stay."""

    def keep(self, key: Hashable, launch: Launch) -> None:
        """Store the launch."""
        if len(self) >= MAX_LAUNCHES:
            self.clear()
        self[key] = launch


class Entry:
    """An entry function, and where its structure holds the addresses of the tensors.

    A call passes tensors in the structure's order: ``operands`` (query first, output last), ``pointers`` (adjacent fields), log-sum-exp.
    ``prepare(tensors, options)`` checks them and returns the ``Launch``.
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
        self.operand_count = len(operands)
        first = get_word_index(structure, operands[0])
        self.operands = slice(first, first + OPERAND_WORDS * self.operand_count, OPERAND_WORDS)
        first = get_word_index(structure, pointers[0]) if pointers else 0
        self.pointers = slice(first, first + len(pointers))
        self.out, self.lse, self.workspace, self.stream = (
            get_word_index(structure, name) for name in ("out", "lse", "workspace", "stream")
        )
        self.blank = array.array("Q", bytes(WORD * MAX_WORDS_PER_TENSOR * len(self.names)))
        self.reader = make_reader(len(self.names))
        self.reader_address = ctypes.addressof(self.reader)
        self.launches = Launches()

    def __call__(self, tensors: Tensors, options: Hashable, *, return_lse: bool, repeat: bool = False) -> Any:
        """Launch on the current stream of the query's device. ``repeat``: as an earlier call, or else return MISSING."""
        library = _library.get_library(self.operation)
        words, count = self.blank[:], len(tensors)
        try:
            length = library.flashcore_read(self.reader_address, tensors, words.buffer_info()[0])
        except RuntimeError as error:  # from PyTorch: the tensor is sparse, or has no memory
            return MISSING if repeat else self._refuse(error)
        key = (library, options, words[count:length].tobytes())
        launch = self.launches.get(key) if length > 0 else None
        if launch is None:
            return MISSING if repeat else self._call_first(key, tensors, length, return_lse=return_lse)
        query, out, lse = tensors[0], tensors[self.operand_count - 1], tensors[-1]
        if torch.is_grad_enabled():
            _refuse_gradient(tensors)
        arguments, stream = launch.words[:], current_stream(launch.device)
        arguments[self.operands] = words[: self.operand_count]
        arguments[self.pointers] = words[self.operand_count : count - 1]
        if out is None:
            out = (
                torch.empty_like(query) if launch.like_query else torch.empty(launch.out, dtype=query.dtype, device=query.device)
            )
            arguments[self.out] = out.data_ptr()
        if lse is None and return_lse:
            lse = torch.empty(launch.lse, dtype=torch.float32, device=query.device)
        if lse is not None:
            arguments[self.lse] = lse.data_ptr()
        workspace = get_workspace(self.function, launch.device, stream, launch.workspace_bytes)  # alive until after the launch
        arguments[self.workspace] = workspace[0]
        arguments[self.stream] = stream
        status = getattr(library, self.function)(arguments.buffer_info()[0])
        if status != _library.OK:
            _library.refuse(library, status)
        if recorder.launches is not None:
            recorder.launches.append((self, library, launch, tensors, (out, lse)))
        return (out, lse) if return_lse else out

    def find_words(self) -> list[int]:
        """Return where each tensor's address is among the words."""
        operands, pointers = (range(part.start, part.stop, part.step or 1) for part in (self.operands, self.pointers))
        return [*operands, *pointers, self.lse]

    def _refuse(self, error: RuntimeError) -> NoReturn:
        raise ValueError(f"{', '.join(self.names)}: one of them cannot be read: {str(error).splitlines()[0]}") from error

    def _call_first(self, key: tuple[Any, ...], tensors: Tensors, length: int, *, return_lse: bool) -> Any:
        """Prepare the launch, unless it is known by its options' values, and call again."""
        if length < 0 or any(tensor is None for tensor in tensors[:REQUIRED]):
            index = -1 - length if length < 0 else next(i for i in range(REQUIRED) if tensors[i] is None)
            raise ValueError(_describe_unreadable(self.names[index], tensors[index]))
        if torch.is_grad_enabled():
            _refuse_gradient(tensors)
        library, options, words = key
        options = _replace_tensors(options)
        if (library, options, words) not in self.launches:
            self.launches.keep((library, options, words), self.prepare(tensors, options))
        return self(tensors, options, return_lse=return_lse)


def _refuse_gradient(tensors: Tensors) -> None:
    query, keys, values = tensors[:REQUIRED]
    if query.requires_grad or keys.requires_grad or values.requires_grad:
        raise ValueError("q, k, v: one of them requires a gradient, and this kernel is forward only. Use torch.no_grad()")


def _replace_tensors(options: Any) -> Any:
    """Replace tensors by their numbers. A tensor that changes in place would stay the same key."""
    if isinstance(options, tuple):
        return tuple(_replace_tensors(option) for option in options)
    return options.item() if isinstance(options, torch.Tensor) and options.numel() == 1 else options


def _describe_unreadable(name: str, value: Any) -> str:
    kind = f"has {value.dim()}" if isinstance(value, torch.Tensor) else f"is {type(value).__name__}"
    return f"{name}: must be a tensor of at most 4 dimensions, {kind}"


def to_words(arguments: ctypes.Structure) -> array.array[int]:
    """Copy the structure into an array of words, which is quick to copy again."""
    return array.array("Q", bytes(arguments))


def get_word_index(structure: type[ctypes.Structure], name: str) -> int:
    """Find a field, or an operand's address, among the words."""
    return int(getattr(structure, name).offset) // WORD
