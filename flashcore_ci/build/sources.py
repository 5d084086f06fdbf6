"""The files that a build reads, and digests of their bytes and canonical texts."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from flashcore_ci.bounded import files
from flashcore_ci.build import python_text, tokens
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.identity import digest_of

Problem = tuple[int, str] | None
"""A line and what is wrong there."""


class Sources:
    """The files of one checkout, each read once. An absent file counts as empty: the compiler reports it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._bytes: dict[str, bytes | None] = {}
        self._header_paths: dict[tuple[str, str], str | None] = {}
        self._inside: dict[str, bool] = {}
        self._includes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self._is_file: dict[str, bool] = {}
        self._names: dict[str, tuple[tuple[str, bool], ...]] = {}
        self._line_readers: dict[str, bool] = {}
        self._problems: dict[tuple[str, str], Problem] = {}
        self._texts: dict[tuple[str, Callable[[str], str]], str] = {}

    def is_inside(self, path: str) -> bool:
        """Tell whether ``path`` is relative and inside the checkout."""
        if path not in self._inside:
            outside = "\0" in path or Path(path).is_absolute() or not files.resolve(self.root / path).is_relative_to(self.root)
            self._inside[path] = not outside
        return self._inside[path]

    def exists(self, path: str) -> bool:
        """Tell whether this file can be read."""
        return self._read(path) is not None

    def is_file(self, path: str) -> bool:
        """Tell whether ``path`` is a plain file inside the checkout that can be read."""
        if path not in self._is_file:
            found = os.path.isfile(f"{self.root}/{path}")  # noqa: PTH113 - a path object takes as long as the question
            self._is_file[path] = found and self.is_inside(path) and self.exists(path)
        return self._is_file[path]

    def text(self, path: str) -> str:
        """Return the text, with a replacement for what is not UTF-8."""
        return (self._read(path) or b"").decode("utf-8", errors="replace")

    def closure(self, path: str, include_dirs: Sequence[str]) -> tuple[str, ...]:
        """List ``path`` and all files of the checkout that it includes, under any condition."""
        seen, waiting, folders = set[str](), [path], tuple(include_dirs)
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting.extend(self._included(current, folders))
        return tuple(sorted(seen))

    def bytes_digest(self, paths: Iterable[str]) -> str:
        """Digest these files byte for byte, for the cache's key."""
        return digest_of([(path, hashlib.sha256(self._read(path) or b"").hexdigest()) for path in paths])

    def c_digest(self, paths: Sequence[str]) -> str:
        """Digest the canonical texts of these C++ files.

        Which files are equal counts too: ``#pragma once`` skips a copy of a file that was read.
        """
        exact = [hashlib.sha256(self._read(path) or b"").hexdigest() for path in paths]
        texts = [self._digestible(path, tokens.canonical, self._c_problem(path)) for path in paths]
        return digest_of("c++", list(zip(paths, texts, (exact.index(digest) for digest in exact), strict=True)))

    def python_digest(self, paths: Sequence[str], others: Sequence[str] = (), *, exact: bool = False) -> str:
        """Digest the canonical texts of these Python files, or their bytes if they or the ``others`` can see line numbers.

        ``exact``: always their bytes, because no one notices when they read themselves.
        """
        is_exact = exact or any(self._sees_lines(path) for path in (*paths, *others))
        if is_exact:
            return digest_of("python bytes", self.bytes_digest(paths))
        texts = [self._digestible(path, python_text.canonical, self._python_problem(path) or _not_python(path)) for path in paths]
        return digest_of("python", list(zip(paths, texts, strict=True)))

    def problems(self, c_files: Iterable[str], python_files: Iterable[str]) -> list[CompileError]:
        """Return what in these files could make other programs have the same digest."""
        found = [(path, self._c_problem(path)) for path in c_files]
        found += [(path, self._python_problem(path)) for path in python_files if not _not_python(path)]
        return [CompileError(file=path, line=problem[0], message=problem[1]) for path, problem in found if problem is not None]

    def _digestible(self, path: str, canonical: Callable[[str], str], problem: Problem) -> str | list[str]:
        """Return the canonical text, or the digest of the bytes of a file that is refused."""
        if problem is not None:
            return ["bytes", hashlib.sha256(self._read(path) or b"").hexdigest()]
        if (path, canonical) not in self._texts:
            self._texts[path, canonical] = canonical(self.text(path))
        return self._texts[path, canonical]

    def _c_problem(self, path: str) -> Problem:
        return self._problem(path, "c++", lambda: tokens.find_problem(self.text(path)) or self._outside(path))

    def _python_problem(self, path: str) -> Problem:
        return self._problem(path, "python", lambda: python_text.find_problem(self.text(path)))

    def _problem(self, path: str, language: str, find: Callable[[], Problem]) -> Problem:
        if (path, language) not in self._problems:
            self._problems[path, language] = self._encoding_problem(path) or find()
        return self._problems[path, language]

    def _encoding_problem(self, path: str) -> Problem:
        data = self._read(path) or b""
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            return data.count(b"\n", 0, error.start) + 1, "has bytes that are not UTF-8"
        return None

    def _outside(self, path: str) -> Problem:
        """Find a header that may be outside of the checkout. Only a present file next to the includer may be in a parent folder."""
        folder = str(PurePosixPath(path).parent)
        for name, is_quoted in self._named(path):
            if ".." in PurePosixPath(name).parts and not (is_quoted and self._header(folder, name)):
                return 0, f"names the header {name}, which may be outside of the checkout"
        return None

    def _sees_lines(self, path: str) -> bool:
        if path not in self._line_readers:
            self._line_readers[path] = python_text.sees_lines(self.text(path))
        return self._line_readers[path]

    def _named(self, path: str) -> tuple[tuple[str, bool], ...]:
        if path not in self._names:
            self._names[path] = tokens.includes(self.text(path))
        return self._names[path]

    def _included(self, path: str, include_dirs: tuple[str, ...]) -> list[str]:
        if (path, include_dirs) not in self._includes:
            found = self._includes[path, include_dirs] = []
            near = (str(PurePosixPath(path).parent), *include_dirs)
            for name, quoted in self._named(path):
                folders = near if quoted else include_dirs
                header = next((header for folder in folders if (header := self._header(folder, name)) is not None), None)
                found += [header] if header is not None else []
        return self._includes[path, include_dirs]

    def _header(self, folder: str, name: str) -> str | None:
        if (folder, name) not in self._header_paths:
            path, place = None, Path(os.path.normpath(self.root / folder / name))
            if os.path.exists(place):  # noqa: PTH110 - Path's raises for a name that is too long
                with contextlib.suppress(ValueError):  # the name leads out of the checkout
                    files.resolve(place).relative_to(self.root)
                    path = place.relative_to(self.root).as_posix()  # a compiler looks next to a link, not to what it names
            self._header_paths[folder, name] = path if path is not None and self.exists(path) else None
        return self._header_paths[folder, name]

    def _read(self, path: str) -> bytes | None:
        if path not in self._bytes:
            try:
                self._bytes[path] = files.read(self.root / path, limit=files.MAX_SOURCE)
            except PermissionError as error:
                raise CannotCollectError(f"cannot read {path}: {error.strerror}", fix="make the file readable") from None
            except OSError:
                self._bytes[path] = None
        return self._bytes[path]


def _not_python(path: str) -> Problem:
    """Return a problem if a file that a binding names is not Python: then a # need not begin a comment."""
    return None if path.endswith(".py") else (1, "is not Python")
