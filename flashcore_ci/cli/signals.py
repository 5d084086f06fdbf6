"""SIGINT and SIGTERM: the first asks every child to end, the second kills them. The run is judged as far as it came.

A signal never raises: reports that are being written are written to their end. It is acted upon by a thread of its own, which
the interpreter's C handler wakes through a socket: Python's handlers only run when the main thread next does, and that may be
waiting for a child for as long as the child likes.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

from flashcore_ci.adapters import process

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def graceful() -> Iterator[None]:
    """Inside, signals stop children first. What they did before is restored; once one came, later ones change nothing."""
    heard, told = socket.socketpair()
    told.setblocking(False)  # the C handler must not wait
    listener = threading.Thread(target=_listen, args=(heard,), name="signals", daemon=True)
    listener.start()
    woken = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, _handle) for number in SIGNALS}
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        told.close()
        listener.join()
        heard.close()
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if process.stopping() else handler)


def _listen(heard: socket.socket) -> None:
    """Act upon the numbers of the signals that come, until the other end is closed."""
    while numbers := heard.recv(1):
        if numbers[0] in SIGNALS:
            process.stop_all(kill=process.stopping())


def _handle(number: int, frame: FrameType | None) -> None:
    """Nothing: that there is a handler keeps the interpreter alive; the listener does the rest."""
