"""Find imports inside of functions that name no module. Those at the top fail by themselves."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

MAX_NAMES = 50_000
USUAL = ("torch", "triton", "numpy", "cupy", "cutlass", "tilelang", "flashinfer", "xformers")
"""Modules that a machine without a GPU may lack."""


def missing_imports(file: Path, root: Path) -> list[str]:
    """List imports of modules that exist neither here nor in the checkout.

    Where PyTorch is absent, other packages may be too. There only what looks misspelt is listed.
    """
    return _missing_imports(file.read_text(encoding="utf-8"), file.name, root, _exists("torch"))


@lru_cache(maxsize=1)  # one file may be many subjects
def _missing_imports(text: str, file: str, root: Path, is_complete: bool) -> list[str]:
    found = []
    for line, name in sorted(set(_imported_in_functions(ast.parse(text)))):
        if _exists(name) or name in USUAL or name in _names_in(root):
            continue
        close = difflib.get_close_matches(name, [*USUAL, *sys.stdlib_module_names], n=1, cutoff=0.75)
        if close or is_complete:
            meant = f" (did you mean {close[0]}?)" if close else ""
            found.append(f"{file}:{line}: there is no module {name}{meant}")
    return found


def _imported_in_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        rest: list[ast.AST] = list(function.body)
        while rest:
            node = rest.pop()
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.lineno, node.module.partition(".")[0]
            elif not isinstance(node, ast.Try | ast.If):  # an import that may fail, or is for some machines
                rest += ast.iter_child_nodes(node)


@cache
def _names_in(root: Path) -> frozenset[str]:
    """List what the checkout could provide as a module."""
    found: set[str] = set()
    for _, folders, files in os.walk(root):
        folders[:] = [folder for folder in folders if not folder.startswith(".")]
        found.update(folders, (name.removesuffix(".py") for name in files if name.endswith(".py")))
        if len(found) > MAX_NAMES:
            break
    return frozenset(found)


def _exists(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
