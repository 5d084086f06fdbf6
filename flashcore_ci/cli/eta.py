"""How long it will still take: as long as the same command took here the last time. Pure; the caller has the clock."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

STAGE = re.compile(r"[^\d:(]+")
COUNTED = re.compile(r"\b(\d+) of (\d+)\b")
MINUTE = 60
FEW = 10


@dataclass(slots=True, kw_only=True)
class Remaining:
    """``before`` has the seconds of each stage of the last run, in order. A stage is named by its line up to the first number."""

    before: Mapping[str, float]
    took: dict[str, float] = field(default_factory=dict)
    stage: str = ""
    began: float = 0.0
    line: str = ""

    def enter(self, line: str, now: float) -> bool:
        """Note that ``line`` is shown from ``now`` on; whether a new stage began."""
        self.line = line
        stage = stage_of(line)
        if stage == self.stage:
            return False
        self._leave(now)
        self.stage, self.began = stage, now
        return True

    def left(self, now: float) -> float | None:
        """Seconds until the end; None when nothing is known, or what was known is over."""
        elapsed = now - self.began
        if self.stage not in self.before:
            return _by_count(self.line, elapsed)
        stages = list(self.before)
        later = (name for name in stages[stages.index(self.stage) + 1 :] if name not in self.took)
        seconds = max(self.before[self.stage] - elapsed, 0.0) + sum(self.before[name] for name in later)
        return seconds or None

    def finished(self, now: float) -> dict[str, float]:
        """The seconds of every stage, for the next time."""
        self._leave(now)
        self.stage = ""
        return dict(self.took)

    def _leave(self, now: float) -> None:
        if self.stage:
            self.took[self.stage] = self.took.pop(self.stage, 0.0) + now - self.began


def stage_of(line: str) -> str:
    """``compiled`` of ``compiled 3 of 10: scale.cu``."""
    found = STAGE.match(line)
    return found[0].strip() if found else line


def about(seconds: float | None) -> str:
    """``about 40 s left``; empty when nothing is known. Never more exact than it can be."""
    if seconds is None:
        return ""
    if seconds < FEW:
        return "a few seconds left"
    if seconds < MINUTE:
        return f"about {math.ceil(seconds / FEW) * FEW} s left"
    return f"about {math.ceil(seconds / MINUTE)} min left"


def _by_count(line: str, elapsed: float) -> float | None:
    """By what ``3 of 10`` says: two are done, and the third is on its way."""
    found = COUNTED.search(line)
    if not found:
        return None
    number, total = int(found[1]), int(found[2])
    return elapsed / (number - 1) * (total - number + 1) if 1 < number <= total else None
