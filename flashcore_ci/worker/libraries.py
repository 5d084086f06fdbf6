"""Keep a subject from the libraries of other subjects, which its digests do not cover.

A process runs the workloads of many subjects, and a package may keep what it has loaded. Then one subject could use another's kernels.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flashcore_ci.worker.file_reads import resolved
from flashcore_ci.worker.job import Job


class ForeignLibraryError(Exception):
    """A workload uses the library of another subject."""


class Libraries:
    """The libraries that this process opened by ctypes. Only those of the current subject can be used."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._names = {file.name for file in files.values()}
        self._opened: list[tuple[weakref.ref[ctypes.CDLL], type[ctypes.CDLL], Path]] = []
        self._subject = ""
        self._closed = self._make_closed()
        self.refused = ""
        """What the current workload tried to use. It may have caught the exception."""

    def begin(self, subject: str) -> None:
        """Open the libraries of ``subject``, and close those of others."""
        self._subject, self.refused = subject, ""
        self._opened = [one for one in self._opened if one[0]() is not None]
        for library, kind, file in self._opened:
            _set_class(library(), self._closed if self._find_owner(file) else kind)

    def end(self) -> None:
        """Open all libraries."""
        for library, kind, _ in self._opened:
            _set_class(library(), kind)

    def check(self, file: Path) -> None:
        """Raise ForeignLibraryError if this is the library of another subject."""
        if owner := self._find_owner(file):
            self.refused = f"uses {file.name}, the library of subject {owner}"
            raise ForeignLibraryError(self.refused)

    def add(self, library: ctypes.CDLL, file: Path) -> None:
        """Keep a library that was opened, if it is that of a subject. One of another subject is closed at once, but may be opened.

        A class of another layout cannot be closed. Correctness and the sanitizers see its kernels all the same.
        """
        if file.name not in self._names:
            return
        kind = type(library)
        with contextlib.suppress(TypeError):
            known = weakref.ref(library), kind, file
            _set_class(library, self._closed)
            _set_class(library, self._closed if self._find_owner(file) else kind)
            self._opened.append(known)

    def _find_owner(self, file: Path) -> str:
        """Return the other subject that has this library, or "". A copy, as in an installed package, has the same name."""
        own = self._files.get(self._subject)
        if file == own:
            return ""
        others = {known: subject for subject, known in self._files.items()}
        if file in others:
            return others[file]
        is_own = own is not None and file.name == own.name
        return "" if is_own else next((subject for known, subject in others.items() if known.name == file.name), "")

    def _make_closed(self) -> type[ctypes.CDLL]:
        """Return a class that refuses every use. A check in each call would slow down a subject's own launches."""

        def use(library: ctypes.CDLL, name: str) -> Any:
            if not name.startswith("__"):
                self.check(_find_file(object.__getattribute__(library, "_name")))
            return object.__getattribute__(library, name)

        return type("ClosedLibrary", (ctypes.CDLL,), {"__getattribute__": use, "__repr__": object.__repr__})


def _set_class(library: ctypes.CDLL | None, kind: type[ctypes.CDLL]) -> None:
    if library is not None:
        object.__setattr__(library, "__class__", kind)


def _find_file(name: Any) -> Path:
    return resolved(os.fsdecode(name))


@contextlib.contextmanager
def kept_apart(job: Job) -> Iterator[Libraries]:
    """Watch what ctypes opens meanwhile. ``options["libraries"]``: the files of subjects that may have no workload here."""
    own = {subject.name: subject.library for subject in job.subjects if subject.library is not None}
    files = {**job.options.get("libraries", {}), **own}
    libraries = Libraries({name: resolved(str(file)) for name, file in files.items()})
    kind: Any = ctypes.CDLL
    start = kind.__init__

    def watch(library: ctypes.CDLL, *arguments: Any, **options: Any) -> None:
        name = arguments[0] if arguments else options.get("name")
        if not name:  # the process itself
            start(library, *arguments, **options)
            return
        start(library, *arguments, **options)
        libraries.add(library, _find_file(name))

    kind.__init__ = watch
    try:
        yield libraries
    finally:
        kind.__init__ = start
        libraries.end()
