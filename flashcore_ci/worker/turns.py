"""Make few CUDA contexts at a time on this machine, in the order of need.

The driver makes all that are asked for side by side, 0.17 s for each, and each is ready as late as the last: 25 take 4.2 s. In turns the
first four begin after 0.7 s.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

AT_ONCE = 4
MAX_SECONDS = 20.0
"""Then a process goes on without a turn: another one may hang in the driver."""
POLL_SECONDS = 0.005
FOLDER = "flashcore-ci-contexts"
FIRST, LATER, LAST = range(3)
NEED = {"probe": FIRST, "correctness": FIRST, "launch": LATER, "control": LATER}
"""When a kind of job needs its context. What only waits for a free GPU is last."""
TICKET = re.compile(r"[0-9]-[0-9]{20}-[0-9]+")
_waiting: list[Path] = []
"""The ticket of this process before its turn."""


def use(folder: str, kind: str) -> None:
    """Take turns with all processes that use this folder. Empty: take none."""
    ticket = f"{NEED.get(kind, LAST)}-{time.monotonic_ns():020d}-{os.getpid()}"
    _waiting[:] = [Path(folder) / FOLDER / ticket] if folder else []


@contextlib.contextmanager
def one() -> Iterator[None]:
    """Wait for this process's turn, the first time. It ends with the block."""
    ticket = _waiting.pop() if _waiting else None
    with contextlib.ExitStack() as turn:
        if ticket is not None:
            with contextlib.suppress(OSError):  # without such a folder there are no turns
                turn.callback(os.close, _draw(ticket))
                turn.callback(_remove, ticket)
                _await(ticket)
        yield


def _draw(ticket: Path) -> int:
    """Make a ticket that this process holds locked. OSError if that cannot be, also behind a link or in a stranger's folder: files are removed here."""
    ticket.parent.mkdir(mode=0o1777, exist_ok=True)
    status = ticket.parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        raise NotADirectoryError(str(ticket.parent))
    descriptor = os.open(ticket, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process just looks whether it is abandoned
        _remove(ticket)
        os.close(descriptor)
        raise
    return descriptor


def _remove(ticket: Path) -> None:
    with contextlib.suppress(OSError):  # it is another user's, or the folder has changed
        ticket.unlink()


def _await(ticket: Path) -> None:
    """Wait until few tickets are before this one."""
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline:
        names = os.listdir(ticket.parent)  # noqa: PTH208 - names are enough
        before = sorted(name for name in names if name < ticket.name and TICKET.fullmatch(name))
        held = (name for name in before if not _is_abandoned(ticket.parent / name))
        if len(list(itertools.islice(held, AT_ONCE))) < AT_ONCE:
            return
        time.sleep(POLL_SECONDS)


def _is_abandoned(ticket: Path) -> bool:
    """Tell whether its process has ended. Then it is removed."""
    try:
        descriptor = os.open(ticket, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # removed a moment ago, or no ticket
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a network's file system locks no file that is open for reading: no process waits for what cannot be told
        return True
    else:
        _remove(ticket)
        return True
    finally:
        os.close(descriptor)
