"""The durations of earlier commands, in a file that may be missing or broken."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import loads
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.run.request import settings_of
from flashcore_ci.store.files import write_atomically

FILE = "durations.json"
MAX_COMMANDS, MAX_SECONDS = 50, 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """The durations of one command line. An empty ``key`` keeps nothing."""

    file: Path
    key: str

    @classmethod
    def at_home(cls, environ: Mapping[str, str], key: str) -> Durations:
        """Use the file in the tool's home folder."""
        return cls(file=settings_of(environ).home / FILE, key=key)

    def load(self) -> dict[str, float]:
        """Read the seconds of each stage, in order."""
        stages = self._read().get(self.key)
        if not isinstance(stages, dict) or not all(isinstance(s, int | float) and 0 <= s <= MAX_SECONDS for s in stages.values()):
            return {}
        return {str(name): float(seconds) for name, seconds in stages.items()}

    def save(self, stages: Mapping[str, float]) -> None:
        """Keep the seconds of each stage, of the latest commands."""
        if not self.key or not stages:
            return
        known = {key: value for key, value in self._read().items() if key != self.key}
        recent = dict(list(known.items())[-(MAX_COMMANDS - 1) :])
        rounded = {name: round(seconds, 1) for name, seconds in stages.items()}
        with contextlib.suppress(CannotCollectError):
            write_atomically(self.file, json.dumps({**recent, self.key: rounded}).encode())

    def _read(self) -> dict[str, Any]:
        try:
            content = loads(files.read(self.file, limit=files.MIB))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}
