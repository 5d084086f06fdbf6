"""What charts of a verdict need in addition to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.subject import Description, EntrySpec, Problem
from flashcore_ci.model.suite import Kind, Ridge, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The SM clock in one timing process: seconds since its first block, MHz."""

    workload: str
    process: int
    seconds: tuple[float, ...]
    mhz: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.seconds) != len(self.mhz):
            raise ValueError("every block has a moment and a clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The source around ``line`` of ``file``. ``first`` is the first line's number."""

    file: str
    line: int
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """The content of ``dossier.json``. Any part may be empty if the run ended early."""

    suite_file: str = ""
    ridge: Ridge | None = None
    workloads: tuple[Workload, ...] = ()
    descriptions: tuple[Description, ...] = ()
    observations: tuple[Observation, ...] = ()
    traces: tuple[Trace, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    schema: Literal["dossier-v1"] = "dossier-v1"

    def observation(self, kind: Kind, target: str) -> Observation | None:
        """Return the observation, if there is one."""
        return next((o for o in self.observations if o.target == target and o.kind is kind), None)

    def problem(self, workload: str) -> Problem | None:
        """Return the problem, if declared."""
        problems = (problem for description in self.descriptions for problem in description.problems)
        return next((problem for problem in problems if problem.workload == workload), None)

    def entry(self, symbol: str) -> EntrySpec | None:
        """Return the declaration of this entry function, if any."""
        specs = (spec for description in self.descriptions if description.build for spec in description.build.entries)
        return next((spec for spec in specs if spec.symbol == symbol), None)

    def file_of(self, subject: str) -> str:
        """Return the subject's file in the checkout, or ""."""
        return next((description.file for description in self.descriptions if description.subject == subject), "")
