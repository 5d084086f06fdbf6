"""GPUs and Slurm nodes that failed twice and were put aside: ``doctor`` names them, and the next run leaves them out."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from flashcore_ci.adapters import clock
from flashcore_ci.bounded import files
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.store.files import write_atomically

FOLDER = "aside"
KEPT_SECONDS = 7 * 24 * 3600.0
MAX_NOTE = 4096
DIGITS = 16
UUID = ("GPU-", "MIG-")


def note(home: Path, gpu: str, why: str) -> None:
    """Remember a GPU. A disk that refuses changes nothing."""
    file = home / FOLDER / hashlib.sha256(gpu.encode()).hexdigest()[:DIGITS]
    with contextlib.suppress(CannotCollectError):
        write_atomically(file, f"{gpu}\n{why}\n".encode(errors="replace")[:MAX_NOTE])


def noted(home: Path) -> tuple[tuple[str, str, Path], ...]:
    """Return the GPUs of the last week: UUID, reason and file."""
    found = []
    for file in sorted((home / FOLDER).glob("*")):
        with contextlib.suppress(OSError):
            gpu, _, why = files.read(file, limit=MAX_NOTE).decode(errors="replace").strip().partition("\n")
            if clock.wall() - file.stat().st_mtime < KEPT_SECONDS:
                found.append((gpu, why, file))
    return tuple(found)


def nodes(home: Path) -> dict[str, str]:
    """Return the nodes of the last week, each with its reason."""
    return {name: why for name, why, _ in noted(home) if not name.startswith(UUID)}
