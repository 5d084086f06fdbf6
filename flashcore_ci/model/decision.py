"""Whether a change needs a GPU job, and which measurement answers if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The original measurement: the workflow run that made it, its commit, day and GPU."""

    run: str
    commit: str
    collected_at: str
    device: str

    def describe(self) -> str:
        """Name it in one line."""
        return f"{self.run}, commit {self.commit[:12]}, {self.collected_at[:10]}, {self.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The content of ``decision.json``. ``only``: the workloads that a GPU must measure (none: all that the suite has)."""

    needed: bool
    code: Code
    reason: str
    only: tuple[str, ...] = ()
    measurement: Measurement | None = None
    schema: Literal["decision-v1"] = "decision-v1"
