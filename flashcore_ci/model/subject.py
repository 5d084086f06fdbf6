"""What a subject declares before anything is built or run."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from flashcore_ci.model.options import DEFAULTS, CompileOptions
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

    def __post_init__(self) -> None:
        if self.max_registers < 1:
            raise ValueError(f"{self.symbol}: max_registers is {self.max_registers}, and a kernel needs at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """How a subject's shared library is built. Paths are relative to the checkout.

    ``launchers`` are host-only sources. They and ``binding`` (Python files) count by tokens, device code by its SASS.
    ``compile`` names one architecture.
    """

    library: str
    launchers: tuple[str, ...]
    includes: tuple[str, ...]
    binding: tuple[str, ...]
    entries: tuple[EntrySpec, ...]
    compile: CompileOptions = DEFAULTS


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


def required_keys(record: type[Any]) -> tuple[str, ...]:
    """Return the fields without a default."""
    return tuple(f.name for f in fields(record) if f.default is MISSING and f.default_factory is MISSING and f.name != "workload")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectFunction:
    """A function of a subject's file: its arguments, the record that it returns (None: tensors), and what it does."""

    parameters: tuple[str, ...]
    meaning: str
    record: type[Any] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it may return, if they are fixed."""
        return tuple(field.name for field in fields(self.record) if field.name != "workload") if self.record else ()


FUNCTIONS: dict[str, SubjectFunction] = {
    "build": SubjectFunction(
        parameters=("root",),
        record=BuildSpec,
        meaning="Says how the shared library is built. None: no machine code at build time.",
    ),
    "problem": SubjectFunction(
        parameters=("params",),
        record=Problem,
        meaning="Counts the work of one workload, and names the entry functions that it launches.",
    ),
    "load": SubjectFunction(parameters=("library",), meaning="Loads the library. Omit it where there is none."),
    "inputs": SubjectFunction(
        parameters=("params", "seed"), meaning="Makes tensors by name, the same for the same seed. They are never written to."
    ),
    "outputs": SubjectFunction(parameters=("inputs",), meaning="Makes output tensors by name, not initialised."),
    "run": SubjectFunction(parameters=("inputs", "outputs"), meaning="Launches once on the current stream, into these outputs."),
    "reference": SubjectFunction(
        parameters=("inputs",), meaning="Computes the same by PyTorch, by the names of outputs(). Also called with float64."
    ),
}
"""The seven functions. All arguments are positional."""
