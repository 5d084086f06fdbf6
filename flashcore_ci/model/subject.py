"""What a subject says of itself, before anything is built or run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySpec:
    """An entry function (``__global__``) as the subject declares it; ``source`` is the one file that defines it.

    ``loads_bulk_copies``: ordinary loads read shared memory that bulk copies wrote, which initcheck takes for never written.
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

    ``launchers`` are host-only sources; they and ``binding`` (Python files) count by their tokens, device code
    by its machine code.
    """

    library: str
    launchers: tuple[str, ...]
    includes: tuple[str, ...]
    binding: tuple[str, ...]
    entries: tuple[EntrySpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What one workload asks of the machine: FLOP, bytes that must move, and the entry functions that it launches."""

    workload: str
    flops: float
    bytes: float
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One subject's whole description; ``build`` is None for a subject without machine code of its own."""

    subject: str
    file: str
    build: BuildSpec | None
    problems: tuple[Problem, ...]

    def problem(self, workload: str) -> Problem:
        """The problem of the workload with this id (KeyError when the subject was not asked about it)."""
        for problem in self.problems:
            if problem.workload == workload:
                return problem
        raise KeyError(workload)
