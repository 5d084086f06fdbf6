"""The files that a build reads, and digests of their bytes and tokens."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from flashcore_ci.bounded import files
from flashcore_ci.build import tokens
from flashcore_ci.model.identity import digest_of


class Sources:
    """The files of one checkout, each read once. An absent file counts as empty: the compiler reports it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._bytes: dict[str, bytes | None] = {}
        self._headers: dict[str, tuple[tuple[str, bool], ...]] = {}
        self._header_paths: dict[tuple[str, str], str | None] = {}

    def is_inside(self, path: str) -> bool:
        """Tell whether ``path`` is relative and inside the checkout."""
        return "\0" not in path and not Path(path).is_absolute() and files.resolve(self.root / path).is_relative_to(self.root)

    def exists(self, path: str) -> bool:
        """Tell whether this file can be read."""
        return self._read(path) is not None

    def closure(self, path: str, include_dirs: Sequence[str]) -> tuple[str, ...]:
        """List ``path`` and all files of the checkout that it includes, under any condition."""
        seen: set[str] = set()
        waiting = [path]
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting.extend(self._included(current, include_dirs))
        return tuple(sorted(seen))

    def bytes_digest(self, paths: Iterable[str]) -> str:
        """Digest these files byte for byte, for the cache's key."""
        return digest_of([(path, hashlib.sha256(self._read(path) or b"").hexdigest()) for path in paths])

    def c_digest(self, paths: Iterable[str]) -> str:
        """Digest the tokens of these C++ files."""
        return digest_of([(path, tokens.c_tokens(self._text(path))) for path in paths])

    def python_digest(self, paths: Iterable[str]) -> str:
        """Digest the tokens of these Python files."""
        return digest_of([(path, tokens.python_tokens(self._text(path))) for path in paths])

    def _included(self, path: str, include_dirs: Sequence[str]) -> list[str]:
        if path not in self._headers:
            self._headers[path] = tokens.includes(self._text(path))
        found = []
        for name, quoted in self._headers[path]:
            folders = (str(PurePosixPath(path).parent), *include_dirs) if quoted else include_dirs
            header = next((header for folder in folders if (header := self._header(folder, name)) is not None), None)
            found += [header] if header is not None else []
        return found

    def _header(self, folder: str, name: str) -> str | None:
        if (folder, name) not in self._header_paths:
            path = None
            with contextlib.suppress(ValueError):  # the name leads out of the checkout
                path = files.resolve(self.root / folder / name).relative_to(self.root).as_posix()
            self._header_paths[folder, name] = path if path is not None and self.exists(path) else None
        return self._header_paths[folder, name]

    def _read(self, path: str) -> bytes | None:
        if path not in self._bytes:
            try:
                self._bytes[path] = files.read(self.root / path, limit=files.MAX_SOURCE)
            except OSError:
                self._bytes[path] = None
        return self._bytes[path]

    def _text(self, path: str) -> str:
        return (self._read(path) or b"").decode("utf-8", errors="replace").replace("\r\n", "\n")
