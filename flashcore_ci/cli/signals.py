"""SIGINT, SIGTERM and SIGHUP: the first asks every child to end, the second kills them.

A signal never raises, so reports are written to their end. A thread acts on it, woken through a socket by the interpreter's C
handler: Python's own handlers run in the main thread, which may wait for a child.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

from flashcore_ci.run import host

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def graceful() -> Iterator[None]:
    """Let the first signal stop children, and the second kill them."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)  # the C handler must not wait
    listener = threading.Thread(target=_listen, args=(reader,), name="signals", daemon=True)
    listener.start()
    previous_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    previous = {number: signal.signal(number, _handle) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        writer.close()
        listener.join()
        reader.close()
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_IGN if host.is_stopping() else handler)


def _listen(reader: socket.socket) -> None:
    while numbers := reader.recv(1):
        if numbers[0] in SIGNALS:
            host.stop(kill=host.is_stopping())


def _handle(number: int, frame: FrameType | None) -> None:
    """Keep the interpreter alive. The listener acts."""
