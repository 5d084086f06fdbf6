"""Find and load the kernel libraries, and turn their status into Python errors."""

from __future__ import annotations

import ctypes
import itertools
import os
import pathlib
from collections.abc import Callable
from typing import Any, NoReturn

ABI_VERSION = 2

OK, INVALID_ARGUMENT = 0, 1
ENTRY_POINTS = {
    "attention": ("flashcore_attention_forward", "flashcore_attention_varlen", "flashcore_attention_varlen_workspace_bytes"),
    "combine": ("flashcore_combine",),
    "decode": ("flashcore_decode", "flashcore_decode_workspace_bytes"),
    "e4m3": (
        "flashcore_e4m3_forward",
        "flashcore_e4m3_transpose",
        "flashcore_e4m3_varlen",
        "flashcore_e4m3_varlen_workspace_bytes",
    ),
    "stream": ("flashcore_stream_axpy",),
}
"""The exports of each operation, functions of one pointer. A library with the first one has the operation."""

_PACKAGE = pathlib.Path(__file__).resolve().parent
_libraries: dict[str, ctypes.CDLL] = {}
_on_load: list[Callable[[], None]] = []
REPLAY = "libflashcore_torch.so"


class LibraryError(RuntimeError):
    """No usable kernel library was found, or the device refused the launch."""


def load(path: str | os.PathLike[str]) -> None:
    """Use the library at ``path`` for every operation that it exports."""
    library = _open(pathlib.Path(path))
    operations = [name for name in ENTRY_POINTS if _has_operation(library, name)]
    if not operations:
        raise LibraryError(f"{path} exports no FlashCore operation. Build it with flashcore-ci build")
    for name in operations:
        _libraries[name] = library
    for forget in _on_load:
        forget()


def on_load(forget: Callable[[], None]) -> None:
    """Call this function after every later ``load``, because what it keeps belongs to another library."""
    _on_load.append(forget)


def find_replay() -> ctypes.CDLL | None:
    """Open the C++ part of PyTorch's operators, which is optional."""
    path = next((path for path in _list_candidates("torch") if path.is_file() and path.name == REPLAY), None)
    try:
        return None if path is None else ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"cannot load {path}: {error}") from error


def get_library(operation: str) -> ctypes.CDLL:
    """Return the operation's library: loaded before, named by FLASHCORE_LIBRARY, or in this folder."""
    library = _libraries.get(operation)
    if library is None:
        candidates = [path for path in _list_candidates(operation) if path.is_file()]
        if not candidates:
            raise LibraryError(
                f"no libflashcore_{operation}.so: call flashcore.load(path), set FLASHCORE_LIBRARY to the file or its "
                f"folder, or put the library into {_PACKAGE}"
            )
        library = _libraries[operation] = _open(candidates[0])
    return library


def call(operation: str, function: str, arguments: Any) -> None:
    """Call a function of the operation's library."""
    library = get_library(operation)
    status = getattr(library, function)(arguments)
    if status != OK:
        refuse(library, status)


def refuse(library: ctypes.CDLL, status: int) -> NoReturn:
    """Raise the library's last error message."""
    message = library.flashcore_error_string().decode(errors="replace")
    raise ValueError(message) if status == INVALID_ARGUMENT else LibraryError(message)


def _list_candidates(operation: str) -> list[pathlib.Path]:
    name = f"libflashcore_{operation}.so"
    setting = os.environ.get("FLASHCORE_LIBRARY")
    path = pathlib.Path(setting or "")
    # a folder of libraries, the folder that `flashcore-ci build` writes, or the file itself
    first = [path / name, path / operation / name, path] if setting else []
    return [*first, _PACKAGE / name]


def _open(path: pathlib.Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"cannot load {path}: {error}") from error
    if not hasattr(library, "flashcore_abi_version"):
        raise LibraryError(f"{path} is not a FlashCore library. Build one with flashcore-ci build")
    version = library.flashcore_abi_version()
    if version != ABI_VERSION:
        raise LibraryError(f"{path} has ABI version {version}, this package needs {ABI_VERSION}. Run flashcore-ci build again")
    library.flashcore_error_string.argtypes = []
    library.flashcore_error_string.restype = ctypes.c_char_p
    for name in itertools.chain.from_iterable(ENTRY_POINTS.values()):
        if hasattr(library, name):
            function = getattr(library, name)
            function.argtypes = [ctypes.c_void_p]
            function.restype = ctypes.c_int64 if name.endswith("_bytes") else ctypes.c_int
    read = ctypes.PyDLL(str(path)).flashcore_read  # PyDLL keeps Python's lock, because it reads Python objects
    read.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    read.restype = ctypes.c_int64
    vars(library)["flashcore_read"] = read
    return library


def _has_operation(library: ctypes.CDLL, operation: str) -> bool:
    return hasattr(library, ENTRY_POINTS[operation][0])
