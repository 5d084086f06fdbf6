"""GPUs and Slurm nodes that failed twice in a week and were put aside: ``doctor`` names them, and the next run leaves them out."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from flashcore_ci.adapters import clock
from flashcore_ci.bounded import files
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.store.files import write_atomically

FOLDER = "aside"
KEPT_SECONDS = 7 * 24 * 3600.0
MAX_NOTE = 4096
DIGITS = 16
ONCE = ".once"


def note(home: Path, gpu: str, why: str) -> None:
    """Remember a GPU. A disk that refuses changes nothing."""
    with contextlib.suppress(CannotCollectError):
        write_atomically(_file(home, gpu), f"{gpu}\n{why}\n".encode(errors="replace")[:MAX_NOTE])


def failed(home: Path, gpu: str, why: str) -> bool:
    """Remember that a GPU failed. If it is not the first time in a week, put it aside, and return True."""
    once = _file(home, gpu).with_suffix(ONCE)
    with contextlib.suppress(OSError):
        if once.is_file() and 0.0 <= clock.wall() - once.stat().st_mtime < KEPT_SECONDS:
            note(home, gpu, why)
            once.unlink()  # once it is sound again, and its note is gone, it starts afresh
            return _file(home, gpu).is_file()
    with contextlib.suppress(CannotCollectError):
        write_atomically(once, f"{gpu}\n{why}\n".encode(errors="replace")[:MAX_NOTE])
    return False


def noted(home: Path) -> tuple[tuple[str, str, Path], ...]:
    """Return the GPUs of the last week: UUID, reason and file. A file that ``note`` did not write whole names none."""
    found = []
    for file in sorted((home / FOLDER).glob("*")):
        with contextlib.suppress(OSError):
            gpu, _, why = files.read(file, limit=MAX_NOTE).decode(errors="replace").strip().partition("\n")
            if why and file == _file(home, gpu) and clock.wall() - file.stat().st_mtime < KEPT_SECONDS:
                found.append((gpu, why, file))
    return tuple(found)


def among(home: Path, known: Callable[[], Iterable[str]]) -> dict[str, str]:
    """Return those of the ``known`` names that were put aside, each with its reason. It asks for names only if there is a note."""
    found = {gpu: why for gpu, why, _ in noted(home)}
    return {gpu: found[gpu] for gpu in known() if gpu in found} if found else {}


def _file(home: Path, gpu: str) -> Path:
    return home / FOLDER / hashlib.sha256(gpu.encode(errors="replace")).hexdigest()[:DIGITS]
