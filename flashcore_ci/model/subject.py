"""What a subject declares before anything is built or run."""

from __future__ import annotations

from dataclasses import dataclass

from flashcore_ci.model.suite import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySpec:
    """An entry function (``__global__``) as declared. ``source`` defines it.

    ``loads_bulk_copies``: ordinary loads read shared memory that TMA wrote. initcheck takes it for uninitialised.
    """

    symbol: str
    source: str
    max_registers: int
    dynamic_shared_bytes: int
    requires: tuple[str, ...] = ()
    max_waits_per_hgmma: float | None = None
    loads_bulk_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """How a subject's shared library is built. Paths are relative to the checkout.

    ``launchers`` are host-only sources. They and ``binding`` (Python files) count by tokens, device code by its SASS.
    """

    library: str
    launchers: tuple[str, ...]
    includes: tuple[str, ...]
    binding: tuple[str, ...]
    entries: tuple[EntrySpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The size of one workload: FLOP, bytes that must move, and its entry functions.

    ``estimated``: a tool counted FLOP and bytes, and they were not reviewed. ``output_shapes`` are for people.
    """

    workload: str
    flops: float
    bytes: float
    entries: tuple[str, ...]
    estimated: bool = False
    output_shapes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One subject. ``build``: None if it has no machine code of its own. ``trust``, ``candidate``: as in ``SubjectRef``."""

    subject: str
    file: str
    build: BuildSpec | None
    problems: tuple[Problem, ...]
    trust: Trust = Trust.FULL
    candidate: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len({problem.workload for problem in self.problems}) != len(self.problems):
            raise ValueError(f"{self.subject} describes a workload twice")

    def problem(self, workload: str) -> Problem:
        """Return the problem of this workload, or raise KeyError."""
        for problem in self.problems:
            if problem.workload == workload:
                return problem
        raise KeyError(workload)
