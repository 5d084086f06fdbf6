"""What was built and measured, each bound to the identity of what ran."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Histogram, Missing, Reading, Samples
from flashcore_ci.model.shard import Unit
from flashcore_ci.model.suite import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileError:
    """The compiler's first error. ``line`` is 0 if unknown."""

    file: str
    line: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryBuild:
    """One entry function as compiled. Bytes are per thread, shared memory per block.

    ``registers`` is what ptxas printed (the launch cap with setmaxnreg), ``highest_register`` the highest in the SASS plus one.
    ``digest`` covers code, constants, initialised data, attributes and the tokens of its host code.
    """

    symbol: str
    source: str
    digest: str
    registers: int
    highest_register: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    opcodes: tuple[tuple[str, int], ...]
    waits: int
    warnings: tuple[str, ...]

    def count(self, opcode: str) -> int:
        """Count instructions with this opcode, e.g. ``HGMMA``."""
        return dict(self.opcodes).get(opcode, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JitModule:
    """Machine code that a framework compiled at run time. ``digest`` covers the cubin, ``sources`` what it was made from.

    ``launches`` are (entry function, grid and block as ``x,y,z/x,y,z``). ``configuration`` is what an autotuner chose.
    """

    framework: str
    name: str
    digest: str
    sources: str
    launches: tuple[tuple[str, str], ...] = ()
    configuration: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildEvidence:
    """One subject's build. If it failed, ``error`` is set and ``entries`` compiled.

    ``launcher`` (with headers), ``binding`` and ``source`` are token digests. ``preprocessed`` and ``host_objects`` digest the
    host code as this machine's compiler read and compiled it. ``dependencies`` stand for machine code that is made at run time:
    (framework, version), and (``file:`` and path, digest) of sources, of what they import, and of lock files.
    """

    subject: str
    compiler: str
    options: tuple[str, ...]
    library: str
    library_digest: str
    launcher: str
    binding: str
    source: str
    entries: tuple[EntryBuild, ...]
    error: CompileError | None = None
    preprocessed: str = ""
    host_objects: str = ""
    dependencies: tuple[tuple[str, str], ...] = ()

    def entry(self, symbol: str) -> EntryBuild | None:
        """Return the entry function, if built."""
        return next((entry for entry in self.entries if entry.symbol == symbol), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Digests of everything that a measurement depends on."""

    machine_code: str
    launcher: str
    binding: str
    subject: str
    workload: str
    collector: str

    def changed(self, other: Identity) -> tuple[str, ...]:
        """Return the names of the parts that differ."""
        return tuple(name for name in self.__slots__ if getattr(self, name) != getattr(other, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding of a tool: a place (line 0 is unknown) and a one-line message.

    ``thread`` and ``block`` are the coordinates, as ``(32,0,0)``, of the first of ``count`` threads.
    """

    tool: str
    message: str
    kernel: str = ""
    file: str = ""
    line: int = 0
    thread: str = ""
    block: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What kept an untrusted candidate apart while it was measured. An empty word: no barrier."""

    mode: str
    network: str = ""
    user: str = ""
    filesystem: str = ""
    clock: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that one collector learned about one target, compared with ``base``.

    ``artifacts`` are paths inside the run folder. Samples of a comparison are paired by index, one round each. ``attempt`` counts
    from 1. A trusted subject has no ``isolation``. ``jit`` is the code that frameworks compiled.
    """

    kind: Kind
    target: str
    identity: Identity
    readings: tuple[tuple[str, Reading], ...] = ()
    samples: tuple[tuple[str, Samples], ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    missing: Missing | None = None
    seconds: float = 0.0
    base: Identity | None = None
    histograms: tuple[tuple[str, Histogram], ...] = ()
    attempt: int = 1
    isolation: Isolation | None = None
    jit: tuple[JitModule, ...] = ()

    def __post_init__(self) -> None:
        for pairs in (self.readings, self.samples, self.histograms):
            names = [name for name, _ in pairs]
            if len(names) != len(set(names)):
                raise ValueError(f"{self.kind} of {self.target}: a metric is given twice")

    def reading(self, metric: str) -> Reading:
        """Return the reading, or why it is missing."""
        absent = Missing(code=Code.METRIC_ABSENT, message=f"no reading named {metric}")
        return self.missing or dict(self.readings).get(metric, absent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The GPU that was measured. ``memory`` and ``l2`` in bytes."""

    name: str
    uuid: str
    driver: str
    compute_capability: str
    multiprocessors: int
    memory: int
    l2: int


YEARS = range(2000, 3000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where and when (ISO 8601 UTC). ``tools`` are (name, version) pairs.

    ``machine_class`` names GPUs whose measurements may be compared, as in ``NVIDIA H200, sm_90, 132 multiprocessors``.
    """

    collected_at: str
    device: Device | None
    tools: tuple[tuple[str, str], ...]
    commit: str
    dirty: bool
    clock_policy: str
    version: str
    machine_class: str = ""

    def __post_init__(self) -> None:
        if dt.datetime.fromisoformat(self.collected_at).year not in YEARS:
            raise ValueError(f"the evidence is of an impossible day, {self.collected_at[:10]}")
        if len(dict(self.tools)) != len(self.tools):
            raise ValueError("a tool is named twice")


def machine_class(device: Device) -> str:
    """Name the class of GPUs that this one belongs to."""
    capability = device.compute_capability.replace(".", "")
    return f"{device.name}, sm_{capability}, {device.multiprocessors} multiprocessors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a shard on one GPU. ``reason`` is empty for the try that counts. Older evidence has no ``shard_index``."""

    number: int
    gpu: str
    reason: str = ""
    shard_index: int | None = None


VERIFIED = -1
UNVERIFIED = 0
"""The index of merged shards: each with a signed statement, or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The part of a plan that was measured: number ``index`` of ``count``, counted from 1, of the plan with this digest.

    Only ``units`` may have results. ``parts``: the digest of each shard's units.
    """

    index: int
    count: int
    plan: str
    units: tuple[Unit, ...]
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not VERIFIED <= self.index <= self.count or len(self.parts) != self.count:
            raise ValueError(f"shard {self.index} of {self.count}, of a cut with {len(self.parts)} parts, is impossible")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The content of ``evidence.json``. A whole plan has no ``shard``."""

    provenance: Provenance
    builds: tuple[BuildEvidence, ...]
    observations: tuple[Observation, ...]
    notes: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    shard: Shard | None = None
    schema: Literal["evidence-v2"] = "evidence-v2"

    def __post_init__(self) -> None:
        if len({build.subject for build in self.builds}) != len(self.builds):
            raise ValueError("a subject has two builds")

    @property
    def is_part(self) -> bool:
        """Tell whether it is of a shard, or was merged from unsigned bundles."""
        return self.shard is not None and self.shard.index != VERIFIED
