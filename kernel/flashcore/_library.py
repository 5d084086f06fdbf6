"""Find and load the kernel libraries, and turn their status into Python errors."""

from __future__ import annotations

import ctypes
import itertools
import os
import pathlib
from typing import Any, NoReturn

ABI_VERSION = 2

OK, INVALID_ARGUMENT = 0, 1
ENTRY_POINTS = {
    "attention": ("flashcore_attention_forward", "flashcore_attention_varlen", "flashcore_attention_varlen_workspace_bytes"),
    "decode": ("flashcore_decode", "flashcore_decode_workspace_bytes"),
    "stream": ("flashcore_stream_axpy",),
}
"""What each operation's library exports, each function of one pointer; the first one tells that it is that library."""

_PACKAGE = pathlib.Path(__file__).resolve().parent
_loaded: dict[str, ctypes.CDLL] = {}


class LibraryError(RuntimeError):
    """No usable kernel library was found, or the device refused the launch."""


def load(path: str | os.PathLike[str]) -> None:
    """Use the library at ``path`` for every operation that it exports."""
    library = _open(pathlib.Path(path))
    operations = [name for name in ENTRY_POINTS if _exports(library, name)]
    if not operations:
        raise LibraryError(f"{path} exports no FlashCore operation")
    for name in operations:
        _loaded[name] = library


def library(operation: str) -> ctypes.CDLL:
    """The library of one operation: loaded before, named by FLASHCORE_LIBRARY, or next to this package."""
    found = _loaded.get(operation)
    if found is None:
        candidates = [path for path in _candidates(operation) if path.is_file()]
        if not candidates:
            raise LibraryError(
                f"no libflashcore_{operation}.so: call flashcore.load(path), set FLASHCORE_LIBRARY to the file or its "
                f"folder, or put the library into {_PACKAGE}"
            )
        found = _loaded[operation] = _open(candidates[0])
    return found


def call(operation: str, function: str, arguments: Any) -> None:
    """Call ``function`` with arguments by reference or address; a refused argument is a ValueError, anything else a LibraryError."""
    shared = library(operation)
    status = getattr(shared, function)(arguments)
    if status != OK:
        refuse(shared, status)


def refuse(shared: ctypes.CDLL, status: int) -> NoReturn:
    """Raise what a call of this library meant by its status."""
    sentence = shared.flashcore_error_string().decode(errors="replace")
    raise ValueError(sentence) if status == INVALID_ARGUMENT else LibraryError(sentence)


def _candidates(operation: str) -> list[pathlib.Path]:
    name = f"libflashcore_{operation}.so"
    named = os.environ.get("FLASHCORE_LIBRARY")
    folder = pathlib.Path(named or "")
    first = [folder / name, folder / operation / name, folder] if named else []  # a folder of ours, of `build`, or the file
    return [*first, _PACKAGE / name]


def _open(path: pathlib.Path) -> ctypes.CDLL:
    try:
        shared = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"cannot load {path}: {error}") from error
    if not hasattr(shared, "flashcore_abi_version"):
        raise LibraryError(f"{path} is not a FlashCore library")
    found = shared.flashcore_abi_version()
    if found != ABI_VERSION:
        raise LibraryError(f"{path} has ABI version {found}; this package needs {ABI_VERSION}")
    shared.flashcore_error_string.argtypes = []
    shared.flashcore_error_string.restype = ctypes.c_char_p
    for function in itertools.chain.from_iterable(ENTRY_POINTS.values()):
        if hasattr(shared, function):
            entry = getattr(shared, function)
            entry.argtypes = [ctypes.c_void_p]
            entry.restype = ctypes.c_int64 if function.endswith("_bytes") else ctypes.c_int
    reader = ctypes.PyDLL(str(path)).flashcore_read  # it looks at Python's objects, so it keeps Python's lock
    reader.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    reader.restype = ctypes.c_int64
    vars(shared)["flashcore_read"] = reader
    return shared


def _exports(shared: ctypes.CDLL, operation: str) -> bool:
    return hasattr(shared, ENTRY_POINTS[operation][0])
