"""Find the files of a checkout that a Python file imports, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.scaffold import foreign

MAX_FILES = 200


def closure(root: Path, file: str) -> tuple[str, ...]:
    """Return ``file`` and what it imports from the checkout, each relative to ``root``. ForeignError for a file that is not Python."""
    found: list[str] = []
    waiting = [file]
    while waiting and len(found) < MAX_FILES:
        name = waiting.pop(0)
        if name in found:
            continue
        found.append(name)
        waiting += [path for path in _packages(root, Path(name)) if path not in found]
        tree = foreign.parse(foreign.read_text(root / name, name), name)
        waiting += [path for module in _modules(tree, Path(name)) for path in _files(root, Path(name).parent, module)]
    return tuple(found)


def _packages(root: Path, file: Path) -> Iterator[str]:
    """Yield the ``__init__.py`` of each package that ``file`` is in."""
    for folder in file.parents:
        if folder == Path() or not (root / folder / "__init__.py").is_file():
            return
        yield (folder / "__init__.py").as_posix()


def _modules(tree: ast.Module, file: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(file.parts[: len(file.parts) - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module or "")))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _files(root: Path, near: Path, module: str) -> Iterator[str]:
    """Yield the file of ``module`` and of its packages, seen from the importing file's folder or from the root."""
    parts = module.split(".")
    for base in dict.fromkeys((near, Path())):
        for depth in range(1, len(parts) + 1):
            place = base.joinpath(*parts[:depth])
            for path in (place.with_suffix(".py"), place / "__init__.py"):
                inside = files.resolve(root / path).is_relative_to(files.resolve(root))
                if parts[0] and inside and (root / path).is_file() and not {".venv", "site-packages"} & set(path.parts):
                    yield path.as_posix()
