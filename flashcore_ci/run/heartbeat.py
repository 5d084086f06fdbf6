"""A file that ``collect`` touches, so that its engine notices a machine that stands still."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flashcore_ci.adapters import clock

BEAT_SECONDS = 5.0
SILENT_SECONDS = 180.0


@contextlib.contextmanager
def sent(file: Path | None) -> Iterator[None]:
    """Touch ``file``, if any, meanwhile."""
    done = threading.Event()

    def beat() -> None:
        while file is not None and not done.wait(BEAT_SECONDS):
            with contextlib.suppress(OSError):
                file.touch()

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        done.set()


@dataclass(slots=True)
class Listener:
    """Notices that nothing touches ``file``."""

    file: Path
    _beat: float = -1.0
    _since: float = field(default_factory=lambda: clock.monotonic())  # noqa: PLW0108 - tests exchange it

    def is_silent(self) -> bool:
        """Tell whether the last beat is too old."""
        with contextlib.suppress(OSError):
            beat = self.file.stat().st_mtime
            if beat != self._beat:
                self._beat, self._since = beat, clock.monotonic()
        return clock.monotonic() - self._since > SILENT_SECONDS
