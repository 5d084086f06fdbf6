"""SIGINT and SIGTERM: the first asks every child to end, the second kills them. The run is judged as far as it came.

A signal never raises: reports that are being written are written to their end.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from flashcore_ci.adapters import process

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def graceful() -> Iterator[None]:
    """Inside, signals stop children first. What they did before is restored; once one came, later ones change nothing."""
    before = {number: signal.signal(number, _handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if process.stopping() else handler)


def _handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the interpreter's signature
    process.stop_all(kill=process.stopping())
