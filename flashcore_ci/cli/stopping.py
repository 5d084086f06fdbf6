"""SIGINT and SIGTERM: the first ends every child and lets the run be judged as far as it came; the second ends the run now."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from flashcore_ci.adapters import process
from flashcore_ci.model.errors import InterruptedRunError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def graceful() -> Iterator[None]:
    """Inside, signals stop children first. What the signals did before is restored afterwards."""
    before = {number: signal.signal(number, _handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the interpreter's signature
    again = process.stopping()
    process.stop_all()
    if again:
        raise InterruptedRunError(f"stopped twice, the second time by {signal.Signals(number).name}")
