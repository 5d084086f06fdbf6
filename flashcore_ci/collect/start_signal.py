"""Tell a worker that waits when it may use the GPU."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import clock
from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import loads


class StartSignal:
    """Let a waiting worker use the GPU. Its time limit counts from the signal."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cancelled = False
        self._deadline: float | None = None

    def send(self, seconds: float, hints: Mapping[str, Any] | None = None) -> None:
        """Let the worker run for so many seconds, with ``hints`` by workload."""
        self._deadline = clock.monotonic() + seconds
        unseen = self._beside("new")
        unseen.write_text(json.dumps(dict(hints or {})), encoding="utf-8")
        unseen.replace(self.file)

    def release(self, seconds: float) -> None:
        """Let the worker measure for so many seconds, as the process before it has ended. Until then it only starts CUDA."""
        self._deadline = clock.monotonic() + seconds
        self._beside("clear").touch()

    def hold(self) -> None:
        """Let the worker not start CUDA before the signal."""
        self._beside("hold").touch()

    def is_making(self) -> bool:
        """Tell whether the worker began to start CUDA before ``hold``, and has not ended."""
        return self._beside("making").exists() and not self.has_made()

    def has_made(self) -> bool:
        """Tell whether the worker started CUDA ahead."""
        return self._beside("made").exists()

    def is_done(self) -> bool:
        """Tell whether the worker has measured everything, without a failure. It may not have ended."""
        return self._beside("done").exists()

    def choices(self) -> dict[str, bool]:
        """Return which workloads a worker that is done launched in graphs. It may have written anything."""
        with contextlib.suppress(OSError, ValueError):
            found = loads(files.read(self._beside("done"), limit=files.MAX_RECORD, follow=False))
            return {name: chosen for name, chosen in found.items() if isinstance(chosen, bool)} if isinstance(found, dict) else {}
        return {}

    def stays(self) -> bool:
        """Tell whether a worker that is done waits for ``let_end``. It has returned its memory, and does nothing."""
        return self.is_done() and self._beside("stays").exists()

    def suspend(self) -> None:
        """Let no time limit run while the worker waits for ``let_end``."""
        self._deadline = None

    def let_end(self, seconds: float) -> None:
        """Let the worker end, within so many seconds."""
        self._deadline = clock.monotonic() + seconds
        self._beside("end").touch()

    def cancel(self) -> None:
        """End the worker."""
        self.cancelled = True
        self._deadline = 0.0

    def expired(self) -> bool:
        """Return whether the worker's time is up."""
        return self._deadline is not None and clock.monotonic() > self._deadline

    def _beside(self, word: str) -> Path:
        return self.file.with_name(f"{self.file.name}.{word}")
