"""What a picture of a verdict needs besides the report: what was asked, and the very observations that answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.subject import Description, EntrySpec, Problem
from flashcore_ci.model.suite import Kind, Ridge, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The SM clock of one fresh timing process on one workload, block by block: seconds since its first block, MHz."""

    workload: str
    process: int
    seconds: tuple[float, ...]
    mhz: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse a moment without a clock."""
        if len(self.seconds) != len(self.mhz):
            raise ValueError("every block has a moment and a clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The source around ``line`` of ``file``, as the finding names it; ``first`` is the number of the first of ``lines``."""

    file: str
    line: int
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """The content of ``dossier.json``. All of it may be absent: a run that ended early has less to show, and says no less."""

    suite_file: str = ""
    ridge: Ridge | None = None
    workloads: tuple[Workload, ...] = ()
    descriptions: tuple[Description, ...] = ()
    observations: tuple[Observation, ...] = ()
    traces: tuple[Trace, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    schema: Literal["dossier-v1"] = "dossier-v1"

    def observation(self, kind: Kind, target: str) -> Observation | None:
        """What answered the checks of this kind on this target, if anything did."""
        return next((o for o in self.observations if (o.kind, o.target) == (kind, target)), None)

    def problem(self, workload: str) -> Problem | None:
        """What the workload asks of the machine, if its subject said so."""
        problems = (problem for description in self.descriptions for problem in description.problems)
        return next((problem for problem in problems if problem.workload == workload), None)

    def entry(self, symbol: str) -> EntrySpec | None:
        """What the entry function was declared to need."""
        specs = (spec for description in self.descriptions if description.build for spec in description.build.entries)
        return next((spec for spec in specs if spec.symbol == symbol), None)

    def file_of(self, subject: str) -> str:
        """The subject's own file, relative to the checkout; empty when it is not known."""
        return next((description.file for description in self.descriptions if description.subject == subject), "")
