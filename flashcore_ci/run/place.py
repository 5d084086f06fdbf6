"""The top folder of the repository, in which every command works."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = "pyproject.toml"
TABLE = b"[tool.flashcore-ci]"


@dataclass(slots=True)
class _Place:
    start: Path | None = None


_PLACE = _Place()


def top_of(folder: Path) -> Path:
    """Return the top of the git repository, else the next folder whose pyproject.toml has our table, else ``folder``."""
    above = (folder, *folder.parents)
    with_git = next((each for each in above if os.path.lexists(each / ".git")), None)
    return with_git or next((each for each in above if _has_table(each / PROJECT)), folder)


@contextlib.contextmanager
def at_top() -> Iterator[Path]:
    """Work in the top folder. ``at_start`` tells paths of the user apart."""
    try:
        start = Path.cwd()
    except OSError:  # the folder is gone, which the command will say
        yield Path()
        return
    with contextlib.chdir(top_of(start)):
        _PLACE.start = start
        try:
            yield start
        finally:
            _PLACE.start = None


def at_start(text: str) -> Path:
    """Turn a path that the user typed into one that is right in the top folder.

    A path that exists only from the top folder stays as it is: messages name such paths.
    """
    top, path = Path.cwd(), Path(text)
    start = _PLACE.start or top
    if path.is_absolute() or start == top or (os.path.lexists(path) and not os.path.lexists(start / path)):
        return path
    whole = Path(os.path.normpath(start / path))
    return whole.relative_to(top) if whole.is_relative_to(top) else whole


def seen_from_start(path: Path) -> str:
    """Write a path of the top folder as the user would type it."""
    start = _PLACE.start
    return str(path) if path.is_absolute() or start is None or start == Path.cwd() else os.path.relpath(path, start)


def _has_table(file: Path) -> bool:
    try:
        return file.stat().st_size < 1 << 20 and file.is_file() and TABLE in file.read_bytes()
    except OSError:
        return False
