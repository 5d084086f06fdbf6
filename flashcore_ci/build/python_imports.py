"""The files of the checkout that Python sources import or name, without running them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from flashcore_ci.bounded import files as plain
from flashcore_ci.build.sources import Sources

MAX_NAME = 200
MAX_MATCHES = 1000
FOLDERS = ("", "src")
"""Where a repository's packages are, next to the folders above each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """Files of the checkout, and the top-level modules from elsewhere. ``compiles``: ``torch.compile`` is named."""

    files: tuple[str, ...]
    modules: tuple[str, ...]
    compiles: bool


def closure(paths: Sequence[str], sources: Sources) -> Closure:
    """List ``paths``, and what they import or name in a string, transitively.

    A string counts if it is a file's path, a module's name, or a pattern such as ``configs/*.json``.
    """
    folders: set[str] = set()
    while True:
        found = _follow(paths, sources, folders)
        if found.folders <= folders:
            break
        folders |= found.folders  # imports may begin there
    outside = found.modules - set(sys.stdlib_module_names) - {"flashcore_ci", ""}
    texts = "".join(sources.text(path) for path in found.files if path.endswith(".py"))
    compiles = "torch.compile" in texts or "inductor" in texts
    return Closure(files=tuple(sorted(found.files)), modules=tuple(sorted(outside)), compiles=compiles)


def always_imported(path: str, sources: Sources) -> tuple[str, ...]:
    """List the files of the checkout that a source imports whenever it runs: not in a function, a class or a condition."""
    try:
        tree = ast.parse(sources.text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    statements = (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    names = (name for node in statements for name in _imported(node, PurePosixPath(path).parent))
    found = (
        file
        for name, is_module in names
        for file in (_modules(name, _folders(path), sources) if is_module else _module_files(name, sources))
    )
    return tuple(sorted(set(found)))


@dataclass(slots=True)
class _Found:
    files: set[str]
    modules: set[str]
    folders: set[str]


def _follow(paths: Sequence[str], sources: Sources, extra: Iterable[str]) -> _Found:
    """Follow imports and strings from ``paths``. ``extra`` are folders that any file may import from."""
    found, waiting = _Found(set(), set(), set()), list(paths)
    while waiting:
        path = waiting.pop()
        if path in found.files:
            continue
        found.files.add(path)
        if not path.endswith(".py"):
            continue
        own = _folders(path)
        folders = tuple(dict.fromkeys((*own, *sorted(extra))))
        for name, is_module in _names(path, sources):
            files = list(_modules(name, folders, sources) if is_module else _literal(name, folders, sources))
            waiting += files
            if is_module and not files:
                found.modules.add(name.split(".", 1)[0])
            elif not is_module and not files:
                found.folders |= _named_folders(name, own, sources)
    return found


def _named_folders(text: str, folders: Sequence[str], sources: Sources) -> set[str]:
    """Return the folders of the checkout that a string names: the source may put them on ``sys.path``."""
    if "\0" in text or "\n" in text or text.startswith("/") or not text.strip("./"):
        return set()
    paths = (f"{folder}/{text}".lstrip("/") for folder in folders)
    return {_normal(path, sources) for path in paths if sources.is_inside(path) and (sources.root / path).is_dir()}


def _folders(path: str) -> tuple[str, ...]:
    """List the folders that a file may import from, the nearest first."""
    above = [str(folder) if str(folder) != "." else "" for folder in PurePosixPath(path).parents]
    return tuple(dict.fromkeys((*above, *(f"{folder}/src".lstrip("/") for folder in above), *FOLDERS)))


def _names(path: str, sources: Sources) -> Iterator[tuple[str, bool]]:
    """Yield imported modules (True) and strings (False)."""
    try:
        tree = ast.parse(sources.text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node, PurePosixPath(path).parent)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= MAX_NAME:
            yield node.value, False


def _imported(node: ast.Import | ast.ImportFrom, package: PurePosixPath) -> Iterator[tuple[str, bool]]:
    """Yield modules (True), or paths without suffix if the import is relative (False)."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, True) for alias in node.names)
    elif not node.level:
        yield node.module or "", True
        yield from ((f"{node.module}.{alias.name}", True) for alias in node.names)
    else:
        folder = package.parents[node.level - 2] if node.level > 1 and len(package.parents) > node.level - 2 else package
        base = "/".join((folder.as_posix(), *(node.module or "").split(".")))
        yield from ((f"{base}/{name}".rstrip("/"), False) for name in ("", *(alias.name for alias in node.names)))


def _modules(name: str, folders: Sequence[str], sources: Sources) -> Iterator[str]:
    """Yield the files of a module and of its packages."""
    parts = name.split(".")
    for folder in folders:
        for depth in range(1, len(parts) + 1):
            yield from _module_files("/".join((*filter(None, (folder,)), *parts[:depth])), sources)


def _module_files(stem: str, sources: Sources) -> Iterator[str]:
    yield from (_normal(path, sources) for path in (f"{stem}.py", f"{stem}/__init__.py") if sources.is_file(path))


def _literal(text: str, folders: Sequence[str], sources: Sources) -> Iterator[str]:
    if "\n" in text or "\0" in text or text.startswith("/"):
        return
    if all(part.isidentifier() for part in text.split(".")):
        yield from _modules(text, folders, sources)
    for folder in ("", *folders):
        path = f"{folder}/{text}".lstrip("/")
        yield from _module_files(path, sources)
        if "*" in text and ("/" in text or "." in text):
            yield from _matches(folder, text, sources)
        elif ("." in text or "/" in text) and sources.is_file(path):
            yield _normal(path, sources)


def _matches(folder: str, pattern: str, sources: Sources) -> Iterator[str]:
    try:
        found = sorted(path for path in (sources.root / folder).glob(pattern) if path.is_file())
    except (ValueError, NotImplementedError, IndexError, OSError):
        return
    yield from (path.relative_to(sources.root).as_posix() for path in found[:MAX_MATCHES] if path.is_relative_to(sources.root))


def _normal(path: str, sources: Sources) -> str:
    """Name a file in one way, whatever ``..`` leads to it."""
    return plain.resolve(sources.root / path).relative_to(sources.root).as_posix()
