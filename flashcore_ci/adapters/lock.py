"""One gate at a time: a lock file per GPU, in a folder that containers can share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from flashcore_ci.adapters import clock, process
from flashcore_ci.bounded import files
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError

POLL_SECONDS = 0.2
FIX = "set FLASHCORE_CI_LOCK_DIR to a writable folder"


def path(folder: Path, uuid: str) -> Path:
    """Return the lock file of this GPU."""
    return folder / f"flashcore-ci-{uuid}.lock"


@contextlib.contextmanager
def hold(file: Path, *, timeout: float, waiting: Callable[[str], None], what: str = "this GPU") -> Iterator[None]:
    """Hold ``file`` locked. Wait up to ``timeout`` seconds, with one message to ``waiting`` that names ``what``.

    The kernel frees the lock when this tool and all its children have ended. CannotCollectError if time is up or the folder refuses, InterruptedRunError
    if the tool is told to stop.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise CannotCollectError(f"cannot lock {file}: {why}", fix=FIX) from None
    try:
        if files.is_plain(descriptor):
            _acquire(descriptor, file, timeout=timeout, waiting=waiting, what=what)
        if not files.is_lock(descriptor):  # asked by the holder: another one may be writing its number until then
            raise CannotCollectError(f"cannot lock {file}: it is not a lock file", fix=FIX)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
        with process.keep_locked(descriptor):
            yield
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # the supervisor may close its copy later
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, file: Path, *, timeout: float, waiting: Callable[[str], None], what: str) -> None:
    deadline = clock.monotonic() + timeout
    announced = False
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if not announced:
            announced = True
            said = os.pread(descriptor, 32, 0).strip()
            holder = said.decode("ascii") if said.isdigit() else "unknown"
            waiting(f"another gate (process {holder}) uses {what}. Waiting up to {timeout:.0f} s for {file}")
        if process.stopping():
            raise InterruptedRunError(f"stopped while waiting for {what}")
        if clock.monotonic() >= deadline:
            fix = "wait for that gate, or give a longer --lock-timeout"
            raise CannotCollectError(f"another gate has held {what} for {timeout:.0f} s ({file})", fix=fix)
        clock.sleep(POLL_SECONDS)
