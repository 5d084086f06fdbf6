"""A problem of another project, as all formats give it, and what no format may contain."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from flashcore_ci.bounded import files

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,109}")
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
WORD = re.compile(r"[A-Za-z_]\w{0,79}", re.ASCII)
MAX_FILE = files.MIB


class ForeignError(ValueError):
    """What is wrong with a foreign file, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The kernel. ``kind``: compiled (by torch.compile), model, function or extension (C++ text).

    ``file``: a file of the checkout, which imports ``files`` of it. ``written``: its parameters for outputs. ``sources``: files to write next to the subject, or the text of an extension.
    """

    kind: str = "compiled"
    file: str = ""
    entry: str = ""
    into: bool = False
    written: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    options: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload: ``params`` for the suite, every axis, and the scalar inputs."""

    id: str
    params: dict[str, Any]
    axes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem. ``source``: the reference's text. ``files``: files of the checkout instead, with their SHA-256.

    ``modules`` are those of ``files`` that are imported. ``inputs``: name to shape (axes; None: a scalar) and dtype. Without ``inputs`` it is a KernelBench model.
    """

    name: str
    origin: str
    command: str
    cases: tuple[Case, ...]
    candidate: Candidate
    source: str = ""
    files: dict[str, str] = field(default_factory=dict)
    entry: str = "run"
    inputs: dict[str, tuple[tuple[str, ...] | None, str]] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    generator: str = ""
    is_seeded: bool = True
    modules: tuple[str, ...] = ()
    tolerance: float | None = None
    omitted: int = 0


def shown(text: str) -> str:
    """Return a path for a comment of a file that is written: nothing in it can end the comment."""
    return re.sub(r"[^\w./: +-]", "_", text, flags=re.ASCII)[:200]


def named(text: object, what: str) -> str:
    """Return a name that may be a folder and an id. ForeignError for any other."""
    if not isinstance(text, str) or not NAME.fullmatch(text) or ".." in text:
        raise ForeignError(f"{what} {str(text)[:60]!r} is not a name: use letters, digits, dot, dash and underscore")
    return text


def plain_path(text: str) -> str:
    """Return a relative path without tricks. ForeignError for any other."""
    parts = PurePosixPath(text).parts
    if not parts or text != "/".join(parts) or not all(PART.fullmatch(part) for part in parts):
        raise ForeignError(f"the path {text[:80]!r} is not a plain relative path of letters, digits and ._-")
    return text


def read_text(path: Path, what: str) -> str:
    """Read a plain UTF-8 file. ForeignError says what it is instead."""
    try:
        return files.read(path, limit=MAX_FILE).decode("utf-8")
    except OSError as error:
        raise ForeignError(f"{what} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ForeignError(f"{what} is not UTF-8") from None


def parse(text: str, what: str) -> ast.Module:
    """Parse Python. ForeignError names the line."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ForeignError(f"{what} is not Python: line {getattr(error, 'lineno', 0)}: {getattr(error, 'msg', error)}") from None


def definition_of(tree: ast.Module, name: str) -> ast.FunctionDef | ast.ClassDef | None:
    """Find a function or class at the top level. The last one counts, as in Python."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
    return found[-1] if found else None


def parameters(tree: ast.Module, name: str, what: str) -> list[ast.arg]:
    """Return a function's parameters without a default. ForeignError if it is absent or takes any number."""
    function = definition_of(tree, name)
    if not isinstance(function, ast.FunctionDef):
        defined = ", ".join(node.name for node in tree.body if isinstance(node, ast.FunctionDef)) or "none"
        raise ForeignError(f"{what} has no function {name} made by def (it has: {defined})")
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        raise ForeignError(f"{name} in {what} takes any number of arguments: give it named parameters")
    given = [*arguments.posonlyargs, *arguments.args]
    return given[: len(given) - len(arguments.defaults)]


def refuse_same(reference: str, entry: str, candidate: str, candidate_entry: str) -> None:
    """Refuse a candidate that is its reference under other names: their comparison would say nothing."""
    try:
        sides = [_shape(parse(text, "a source"), name) for text, name in ((reference, entry), (candidate, candidate_entry))]
    except RecursionError:
        raise ForeignError("a source is nested too deeply to compare the two sides") from None
    if sides[0] is not None and sides[0] == sides[1]:
        raise ForeignError(f"the candidate {candidate_entry} is the reference {entry} itself, so every check would pass")


def _shape(tree: ast.Module, name: str) -> str | None:
    """Return a definition without its docstrings, with names numbered by first use. None if it is absent."""
    node = definition_of(tree, name)
    if node is None:
        return None
    numbers: dict[str, str] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part, clean=False) is not None:
            part.body = part.body[1:] or [ast.Pass()]
        if isinstance(part, ast.FunctionDef):
            part.decorator_list, part.returns = [], None
    for part in ast.walk(node):
        for slot in ("id", "arg", "name"):
            if isinstance(value := getattr(part, slot, None), str):
                setattr(part, slot, numbers.setdefault(value, f"name{len(numbers)}"))
        if isinstance(part, ast.arg):
            part.annotation = None
    return ast.dump(node)
