"""How long each stage of a command took here the last time: a small file in the tool's home folder, and never a reason to fail."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.store.files import write_atomically
from flashcore_ci.suite.settings import Settings

FILE = "durations.json"
MOST_COMMANDS = 50
THAT_MATTER = ("suite", "only", "live", "changed", "build")
"""The options that change how long a command takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is known of one command line in one folder. Without a command nothing is known, and nothing is kept."""

    file: Path
    key: str

    @classmethod
    def of_command(cls, environ: Mapping[str, str]) -> Memory:
        """Of the command that runs now."""
        context = click.get_current_context(silent=True)
        given = {name: str(value) for name, value in context.params.items() if name in THAT_MATTER} if context else {}
        key = json.dumps([context.info_name, str(Path.cwd()), given], sort_keys=True) if context else ""
        return cls(file=Settings.from_environment(environ).home / FILE, key=key)

    def recall(self) -> dict[str, float]:
        """The seconds of each stage, in order; empty when it never ran, or the file is none of ours."""
        stages = self._read().get(self.key)
        if not isinstance(stages, dict) or not all(isinstance(seconds, int | float) for seconds in stages.values()):
            return {}
        return {str(name): float(seconds) for name, seconds in stages.items()}

    def keep(self, stages: Mapping[str, float]) -> None:
        """Note them for the next time; the commands that ran longest ago are forgotten."""
        if not self.key or not stages:
            return
        known = {key: value for key, value in self._read().items() if key != self.key}
        recent = dict(list(known.items())[-(MOST_COMMANDS - 1) :])
        kept = {name: round(seconds, 1) for name, seconds in stages.items()}
        with contextlib.suppress(CannotCollectError):
            write_atomically(self.file, json.dumps({**recent, self.key: kept}).encode())

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.file.read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}
