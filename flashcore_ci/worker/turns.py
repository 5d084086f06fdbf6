"""Make few CUDA contexts at a time on this machine.

The driver makes all that are asked for side by side, 0.12 s for each, and each is ready as late as the last: 25 take 4 s. In turns the
first process begins after half a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

AT_ONCE = 2
MAX_SECONDS = 10.0
"""Then a process goes on without a turn: another one may hang in the driver."""
POLL_SECONDS = 0.005
NAME = "flashcore-ci-context-{}.lock"
_folders: list[Path] = []
"""Where the locks of the turns are. Empty: there are none, or this process had its turn."""


def use(folder: str) -> None:
    """Take turns with all processes that use this folder. Empty: take none."""
    _folders[:] = [Path(folder)] if folder else []


@contextlib.contextmanager
def one() -> Iterator[None]:
    """Wait for this process's turn, the first time. It ends with the block."""
    folder = _folders.pop() if _folders else None
    descriptor = None if folder is None else _take(folder)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _take(folder: Path) -> int | None:
    """Return a lock, or None if there can be none."""
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline:
        for number in range(AT_ONCE):
            try:
                descriptor = os.open(
                    folder / NAME.format(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666
                )
            except OSError:
                return None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
            else:
                return descriptor
        time.sleep(POLL_SECONDS)
    return None
