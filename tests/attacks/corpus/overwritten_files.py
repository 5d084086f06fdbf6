"""Files that the tool did not write, where it writes its own."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import lock
from flashcore_ci.bounded import files
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.store import claim
from flashcore_ci.store import files as written
from flashcore_ci.store import run as runs

FOREIGN = b"a thesis of three years"
Place = Callable[[Path, Path], object]
PLACES: dict[str, Place] = {
    "a foreign file": lambda target, _: target.write_bytes(FOREIGN),
    "a foreign file that begins with a number": lambda target, _: target.write_bytes(b"4711 " + FOREIGN),
    "a foreign file of numbers": lambda target, _: target.write_bytes(b"1\n2\n3\n" * 20),
    "a link to a foreign file": lambda target, other: target.symlink_to(other),
    "a second name of a foreign file": lambda target, other: os.link(other, target),
    "a link to a link": lambda target, other: (
        (target.parent / "link").symlink_to(other),
        target.symlink_to(target.parent / "link"),
    ),
}


def locked(place: Place) -> Callable[[Path], bool]:
    """True if locking a GPU changes what was there."""

    def fooled(folder: Path) -> bool:
        return _changed(folder, folder / "locks" / "gpu.lock", place, _hold)

    return fooled


def marked(place: Place) -> Callable[[Path], bool]:
    """True if claiming a folder changes what was there."""

    def fooled(folder: Path) -> bool:
        return _changed(folder, folder / "run" / claim.MARKER, place, lambda target: _mark(target.parent))

    return fooled


def packed(place: Place, *, late: bool) -> Callable[[Path], bool]:
    """True if packing changes what was there, or what appears between the check and the write."""

    def fooled(folder: Path) -> bool:
        def act(target: Path) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(runs, "read_run", lambda _: None)
                patch.setattr(runs, "files_of", lambda _: {})
                patch.setattr(
                    runs.bundle, "pack_files", lambda _: (place(target, folder / "other"), b"packed")[1] if late else b"packed"
                )
                runs.pack(folder / "run", target)

        return _changed(folder, folder / "run.tar.xz", (lambda *_: None) if late else place, act)

    return fooled


def _hold(target: Path) -> None:
    with lock.hold(target, timeout=0, waiting=lambda _: None):
        pass


def _mark(folder: Path) -> None:
    with claim.mark_folder(folder):
        pass


def _changed(folder: Path, target: Path, place: Place, act: Callable[[Path], object]) -> bool:
    other = folder / "other"
    other.write_bytes(FOREIGN)
    target.parent.mkdir(exist_ok=True)
    place(target, other)
    before = target.read_bytes() if target.exists() else None
    with contextlib.suppress(FlashcoreError, OSError):
        act(target)
    if before is None:  # it appeared during the action
        return target.exists() and FOREIGN not in target.read_bytes() and b"1\n2" not in target.read_bytes()
    return not target.exists() or target.read_bytes() != before or other.read_bytes() != FOREIGN


def _replace(path: Path, data: bytes) -> bool:
    written.write_atomically(path, data)
    return True


def member(draw: random.Random) -> Attack:
    text = bytes(draw.randrange(32, 127) for _ in range(draw.randrange(33, 400)))
    kind, wrap = draw.choice([("a GPU's lock", locked), ("the mark of a run", marked)])
    content = draw.choice([text, text + FOREIGN, b"12" + text[:20] + b"x"])
    return Attack(name=f"{content[:20]!r} as {kind}", attempt=wrap(lambda target, _: target.write_bytes(content)))


def mutant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "is_lock", lambda _: True)
    patch.setattr(os, "O_NOFOLLOW", 0)
    patch.setattr(runs, "write_new", _replace)


CLASS = AttackClass(
    name="overwritten files",
    attacks=(
        *(Attack(name=f"{name} as a GPU's lock", attempt=locked(place)) for name, place in PLACES.items()),
        *(Attack(name=f"{name} as the mark of a run", attempt=marked(place)) for name, place in PLACES.items()),
        *(Attack(name=f"{name} as a packed run", attempt=packed(place, late=False)) for name, place in list(PLACES.items())[:3]),
        *(Attack(name=f"{name} while packing", attempt=packed(place, late=True)) for name, place in list(PLACES.items())[:3]),
    ),
    member=member,
    mutant=mutant,
)
