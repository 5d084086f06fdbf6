"""What is no plain file, and whether reading asks it for bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import FlashcoreError

KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /dev/urandom": lambda path: path.symlink_to("/dev/urandom"),
    "a link to /dev/null": lambda path: path.symlink_to("/dev/null"),
    "a link to /dev/full": lambda path: path.symlink_to("/dev/full"),
    "a folder": Path.mkdir,
}


def asks(read: Callable[[], object], *, most: int = 0) -> bool:
    """Tell whether more than ``most`` parts were asked for: a pipe may wait for a writer, and a device has no end."""
    asked, real = [], os.read

    def counted(descriptor: int, size: int) -> bytes:
        asked.append(size)
        return b"" if len(asked) > most + 4 else real(descriptor, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "read", counted)
        try:
            read()
        except FlashcoreError:
            pass
        except OSError:
            return True
    return len(asked) > most
