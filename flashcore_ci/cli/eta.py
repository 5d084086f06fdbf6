"""Estimate the time left from the last run of the same command."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

STAGE = re.compile(r"[^\d:(]+")
COUNT = re.compile(r"\b(\d+) of (\d+)\b")
CACHED_STAGES = frozenset({"building the kernels", "building the base", "compiled", "installing the CUDA tools"})
"""Stages that are short or missing when a cache holds their results. Their last duration predicts nothing."""
RELEVANT_OPTIONS = ("suite", "only", "live", "changed", "build", "base", "recorded")
"""The options that change how long a command takes."""
MINUTE = 60
STEP = 10


@dataclass(slots=True, kw_only=True)
class TimeLeft:
    """The time left, from the seconds of each earlier stage (``before``)."""

    before: Mapping[str, float]
    seconds: dict[str, float] = field(default_factory=dict)
    stage: str = ""
    began: float = 0.0
    line: str = ""
    first_count: int = 0

    def enter(self, line: str, now: float) -> bool:
        """Show ``line`` from ``now`` on. Returns whether a stage began."""
        self.line = line
        stage = stage_of(line)
        if stage == self.stage:
            return False
        self._leave(now)
        count = COUNT.search(line)
        self.stage, self.began, self.first_count = stage, now, int(count[1]) if count else 0
        return True

    def left(self, now: float) -> float | None:
        """Return the seconds left, if known."""
        elapsed = now - self.began
        if self.stage in CACHED_STAGES or self.stage not in self.before:
            current = self._by_count(elapsed)
            if current is None:
                return None
        else:
            current = max(self.before[self.stage] - elapsed, 0.0)
        return current + sum(self.before[name] for name in self._later_stages()) or None

    def finish(self, now: float) -> dict[str, float]:
        """Return the seconds of stages without a cache."""
        self._leave(now)
        self.stage = ""
        return {name: seconds for name, seconds in self.seconds.items() if name not in CACHED_STAGES}

    def _later_stages(self) -> list[str]:
        stages = list(self.before)
        following = stages[stages.index(self.stage) + 1 :] if self.stage in self.before else stages
        return [name for name in following if name not in self.seconds and name not in CACHED_STAGES]

    def _by_count(self, elapsed: float) -> float | None:
        """Extrapolate from ``5 of 10``. Items before the first were cached."""
        count = COUNT.search(self.line)
        if not count:
            return None
        number, total = int(count[1]), int(count[2])
        finished = number - self.first_count
        return elapsed / finished * (total - number + 1) if finished > 0 and number <= total else None

    def _leave(self, now: float) -> None:
        if self.stage:
            self.seconds[self.stage] = self.seconds.pop(self.stage, 0.0) + now - self.began


def command_key() -> str:
    """Identify the current command, folder and relevant options."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ""
    options = {name: str(value) for name, value in context.params.items() if name in RELEVANT_OPTIONS}
    return json.dumps([context.info_name, str(Path.cwd()), options], sort_keys=True)


def stage_of(line: str) -> str:
    """Name the stage: ``compiled`` of ``compiled 3 of 10: scale.cu``."""
    words = STAGE.match(line)
    return words[0].strip() if words else line


def describe(seconds: float | None) -> str:
    """Write ``about 40 s left``, if known."""
    if seconds is None:
        return ""
    if seconds < STEP:
        return "a few seconds left"
    if seconds < MINUTE:
        return f"about {math.ceil(seconds / STEP) * STEP} s left"
    return f"about {math.ceil(seconds / MINUTE)} min left"
