"""Compare a work tree with a commit, byte by byte. Index, attributes, filters and ignore files have no say in it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LINK, SUBMODULE, EXECUTABLE = "120000", "160000", "100755"
SHA256_DIGITS = 64
CHUNK = 1 << 20
CODE = frozenset({
    ".py", ".pyc", ".pyo", ".pyd", ".pth", ".h", ".hh", ".hpp", ".hxx", ".cuh",
    ".cu", ".c", ".cc", ".cpp", ".cxx", ".inl", ".inc", ".ipp", ".def", ".ptx",
})  # fmt: skip
"""Suffixes of files that an import or an include may read from anywhere."""
SETTINGS = frozenset({".toml", ".json", ".xz", ".cfg", ".ini"})
"""Suffixes of files that the tool itself may read from the top folder."""
CACHES = frozenset({".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
BYTECODE = "__pycache__"
"""Workers never read it for files of the checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of a commit: mode, digest of its blob, and bytes (-1 for a submodule)."""

    mode: str
    digest: str
    size: int


def tree_argv(root: Path, commit: str) -> tuple[str, ...]:
    """Ask for every file of ``commit``."""
    return ("git", "-C", str(root), "ls-tree", "-r", "-l", "-z", "--full-tree", commit)


def parse_tree(data: bytes) -> dict[str, Entry]:
    """Read the files by path. ValueError for other text."""
    entries = {}
    for record in data.split(b"\0")[:-1]:
        head, _, path = record.partition(b"\t")
        mode, _, digest, size = head.decode("ascii").split()
        entries[os.fsdecode(path)] = Entry(mode=mode, digest=digest, size=-1 if size == "-" else int(size))
    return entries


def is_tree_of(commit: str, content: bytes, tree: Mapping[str, Entry]) -> bool:
    """Whether ``content`` is the commit object of this name, and ``tree`` all of its files. No object is taken on trust."""
    new = hashlib.sha256 if len(commit) == SHA256_DIGITS else hashlib.sha1
    is_commit = new(b"commit %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == commit
    return is_commit and content.startswith(f"tree {_tree_digest(tree, len(commit))}\n".encode())


def _tree_digest(tree: Mapping[str, Entry], digits: int) -> str:
    folders: dict[str, dict[str, Entry]] = {}
    rows: dict[bytes, tuple[str, bytes, str]] = {}
    for path, entry in tree.items():
        first, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(first, {})[rest] = entry
        else:
            rows[os.fsencode(path)] = (entry.mode, os.fsencode(path), entry.digest)
    for name, inner in folders.items():
        rows[os.fsencode(name) + b"/"] = ("40000", os.fsencode(name), _tree_digest(inner, digits))
    data = b"".join(
        mode.encode() + b" " + name + b"\0" + bytes.fromhex(digest) for _, (mode, name, digest) in sorted(rows.items())
    )
    new = hashlib.sha256 if digits == SHA256_DIGITS else hashlib.sha1
    return new(b"tree %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def find_changes(top: Path, tree: Mapping[str, Entry], outputs: Collection[Path] = ()) -> Iterator[str]:
    """Yield a line per file of ``top`` that differs from ``tree``, and per file that is not in it and could be read.

    ``outputs`` are what the command itself reads or writes there. Submodules are left to the caller.
    """
    links_above = _LinksAbove(top)
    yield from (f"{path} {how}" for path, entry in tree.items() if (how := _difference(top, path, entry, links_above)))
    skipped = {path.absolute() for path in outputs} | {(top / ".git").absolute()}
    skipped |= {(top / path).absolute() for path, entry in tree.items() if entry.mode == SUBMODULE}
    tracked = {path.split("/")[0] for path in tree if "/" in path}
    for folder, folders, files in os.walk(top.absolute()):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if here / name not in skipped and not _is_environment(here / name, top, tracked)]
        for name in (*files, *links):
            path = (here / name).relative_to(top.absolute())
            is_folder = name in links and not _is_environment(here / name, top, tracked)
            is_output = any(output.is_relative_to(here / name) for output in skipped)
            counts = (is_folder and not is_output) or _could_be_read(path, tracked)
            if here / name not in skipped and path.as_posix() not in tree and counts:
                yield f"{path.as_posix()} is not in the commit"


def _is_environment(folder: Path, top: Path, tracked: Collection[str]) -> bool:
    """Whether this is a Python environment in the top folder, which holds no file of the commit."""
    return folder.parent == top.absolute() and folder.name not in tracked and (folder / "pyvenv.cfg").is_file()


def _could_be_read(path: Path, tracked: Collection[str]) -> bool:
    """Whether an extra file counts: any file next to tracked ones, and elsewhere code."""
    if path.parent.name == BYTECODE and path.suffix == ".pyc":
        return False
    if path.suffix.lower() in CODE:
        return True
    if len(path.parts) == 1:
        return path.suffix.lower() in SETTINGS
    in_cache = any(part in CACHES or part.endswith(".egg-info") for part in path.parts[:-1])
    return path.parts[0] in tracked and not in_cache


class _LinksAbove(dict[str, bool]):
    """Whether a folder below ``top`` is a link, or behind one. Each is looked at once: a system call can take 30 µs."""

    def __init__(self, top: Path) -> None:
        super().__init__({"": False})
        self._top = top

    def __missing__(self, folder: str) -> bool:
        new = [folder]
        while (above := new[-1].rpartition("/")[0]) not in self:  # a path has up to 2,000 folders, more than calls may be nested
            new.append(above)
        for each in reversed(new):
            self[each] = self[each.rpartition("/")[0]] or os.path.islink(f"{self._top}/{each}")  # noqa: PTH114 - as above
        return self[folder]


def _difference(top: Path, path: str, entry: Entry, links_above: Mapping[str, bool]) -> str:
    if entry.mode == SUBMODULE:
        return ""
    try:
        if links_above[path.rpartition("/")[0]]:
            return "is behind a link"
        status = os.lstat(f"{top}/{path}")
    except OSError:
        return "is missing"
    if stat.S_ISLNK(status.st_mode) != (entry.mode == LINK) or not (stat.S_ISLNK(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return "is of another kind"
    if entry.mode != LINK and bool(status.st_mode & stat.S_IXUSR) != (entry.mode == EXECUTABLE):
        return "has another mode"
    return "" if status.st_size == entry.size and _digest(f"{top}/{path}", entry) == entry.digest else "differs from the commit"


def is_blob(data: bytes, digest: str) -> bool:
    """Tell whether git gives these bytes this digest."""
    return bool(_blob(len(data), digest, data).hexdigest() == digest)


def _blob(size: int, like: str, data: bytes = b"") -> Any:
    new = hashlib.sha256 if len(like) == SHA256_DIGITS else hashlib.sha1
    return new(b"blob %d\0" % size + data, usedforsecurity=False)


def _digest(path: str, entry: Entry) -> str:
    """Return the digest that git gives to these bytes without any filter. The file has the size of the entry."""
    digest, left = _blob(entry.size, entry.digest), entry.size
    try:
        if entry.mode == LINK:
            digest.update(os.fsencode(os.readlink(path)))  # noqa: PTH115 - a path object takes longer than the question
            return str(digest.hexdigest())
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            while left and (chunk := os.read(descriptor, min(left, CHUNK))):
                digest.update(chunk)
                left -= len(chunk)
        finally:
            os.close(descriptor)
    except OSError:
        return ""
    return str(digest.hexdigest())
