"""Files of the checkout that the process reads: no digest covers one that ``build`` does not declare."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_IMPORTERS = ("<frozen importlib", "<frozen zipimport")
_SOURCE_READERS = ("linecache.py", "tokenize.py")
"""They show a line of source in a warning or a traceback."""
_as_data: set[Path] = set()
_by_import: set[Path] = set()
_watched: list[Path] = []
_copies: set[Path] = set()
_is_hooked = False


def ignore_bytecode(root: Path) -> None:
    """Import the checkout's sources, never compiled files: such a file may differ from its source and need not look like it."""
    module: Any = importlib.import_module("importlib._bootstrap_external")
    locate = module.cache_from_source
    folder, exempt = resolved(str(root)), resolved(sys.prefix)

    def locate_outside(path: str, *arguments: Any, **options: Any) -> str:
        source = resolved(os.fspath(path))
        if source.is_relative_to(folder) and not source.is_relative_to(exempt):
            raise NotImplementedError
        located: str = locate(path, *arguments, **options)
        return located

    module.cache_from_source = locate_outside


def watch(root: Path) -> None:
    """Record what this process opens or loads inside ``root`` from now on."""
    global _is_hooked  # noqa: PLW0603 - a hook cannot be removed
    if not _is_hooked:
        sys.addaudithook(_record)
        _is_hooked = True
    _watched[:] = [resolved(str(root)), *_copies]


def watch_copy(folder: Path) -> None:
    """Also record what is read in ``folder``, which holds copies of a candidate's files."""
    _copies.add(resolved(str(folder)))
    _watched.append(resolved(str(folder)))


def candidate_read(files: set[Path]) -> Path | None:
    """Return one of a candidate's ``files``, or a copy, that this process read or imported."""
    seen = _as_data | _by_import
    copies = (path for path in seen if any(is_inside(path, folder) for folder in _copies))
    return min((*(seen & files), *copies), default=None)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Let the gate itself read files of the checkout."""
    before = _watched[:]
    _watched.clear()
    try:
        yield
    finally:
        _watched[:] = before


def undeclared(known: set[Path], libraries: set[Path]) -> set[Path]:
    """Return the files that were read as data, or imported, and are not ``known``. A known source read as data is one of them."""
    return (_as_data - libraries) | (_by_import - known - libraries)


def module_files() -> set[str]:
    """Return the files of all modules. torch has modules whose file names are not paths."""
    names = (getattr(module, "__file__", None) for module in tuple(sys.modules.values()))
    return {name for name in names if isinstance(name, str) and name.startswith("/")}


@functools.cache
def resolved(file: str) -> Path:
    """Follow links."""
    return Path(file).resolve()


@functools.cache
def is_inside(path: Path, folder: Path) -> bool:
    """Tell whether ``path`` is ``folder`` or in it. Every workload asks this of a thousand modules, which was a third of its time."""
    return path.is_relative_to(folder)


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        name, mode, flags = arguments
        reads = "r" in mode or "+" in mode if isinstance(mode, str) else flags & os.O_ACCMODE != os.O_WRONLY
    elif event in {"ctypes.dlopen", "sqlite3.connect"}:
        (name,), mode, reads = arguments, "", True
    else:
        return
    if not reads or not isinstance(name, str | bytes | os.PathLike):
        return
    name = os.fsdecode(name)
    if event == "sqlite3.connect" and name.startswith("file:"):
        name = name.removeprefix("file:").partition("?")[0]
    path = Path(os.path.realpath(name))
    if isinstance(mode, str) and not path.exists():  # os.open may name a file in any folder, by the folder's number
        return
    if any(path.is_relative_to(folder) for folder in _watched):
        opener = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - the caller of open
        is_source = opener.startswith(_IMPORTERS) or os.path.basename(opener) in _SOURCE_READERS  # noqa: PTH119 - no path in a hook
        (_by_import if is_source else _as_data).add(path)
