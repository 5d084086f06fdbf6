"""Turn build evidence into observations. Nothing is measured or judged here."""

from __future__ import annotations

from collections.abc import Iterable

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence, EntryBuild, Finding, Observation
from flashcore_ci.model.identity import static_identity
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.subject import Description, EntrySpec
from flashcore_ci.model.suite import Kind, Protocol

LOCAL_MEMORY_OPCODES = ("LDL", "STL")
WARPGROUP_MMA = "HGMMA"


def observe_build(build: BuildEvidence, protocol: Protocol) -> Observation:
    """Return ``build/errors`` of a subject, or the compiler's first error."""
    identity = static_identity(Kind.BUILD, build, [entry.symbol for entry in build.entries], protocol)
    error = build.error
    if error is None:
        readings = (("build/errors", Measured(value=0.0, unit="count")),)
        return Observation(kind=Kind.BUILD, target=build.subject, identity=identity, readings=readings)
    where = f"{error.file}:{error.line}" if error.line else error.file
    return Observation(
        kind=Kind.BUILD,
        target=build.subject,
        identity=identity,
        findings=(Finding(tool="nvcc", message=error.message, file=error.file, line=error.line),),
        missing=Missing(code=Code.COMPILE_ERROR, message=f"{where}: {error.message}"),
    )


def observe_resources(description: Description, build: BuildEvidence, protocol: Protocol) -> tuple[Observation, ...]:
    """Return one observation per declared entry function."""
    spec = description.build
    return () if spec is None else tuple(_observe_entry(entry, build, protocol) for entry in spec.entries)


def observe(descriptions: Iterable[Description], builds: Iterable[BuildEvidence], protocol: Protocol) -> tuple[Observation, ...]:
    """Return all observations on these builds."""
    by_subject = {build.subject: build for build in builds}
    observations: list[Observation] = []
    for description in descriptions:
        build = by_subject.get(description.subject)
        if build is not None:
            observations.append(observe_build(build, protocol))
            observations += observe_resources(description, build, protocol)
    return tuple(observations)


def _observe_entry(spec: EntrySpec, build: BuildEvidence, protocol: Protocol) -> Observation:
    identity = static_identity(Kind.RESOURCES, build, [spec.symbol], protocol)
    entry = build.entry(spec.symbol)
    if entry is None:
        missing = Missing(code=Code.NOT_BUILT, message=f"{spec.symbol} was not built")
        return Observation(kind=Kind.RESOURCES, target=spec.symbol, identity=identity, missing=missing)
    readings, notes = readings_of(spec, entry)
    return Observation(kind=Kind.RESOURCES, target=spec.symbol, identity=identity, readings=readings, notes=notes)


def readings_of(spec: EntrySpec, entry: EntryBuild) -> tuple[tuple[tuple[str, Reading], ...], tuple[str, ...]]:
    """Return the readings of an entry function, and what is wrong with its instructions."""
    notes = _violations(spec, entry)
    return _readings(spec, entry, len(notes)), notes


def _readings(spec: EntrySpec, entry: EntryBuild, violations: int) -> tuple[tuple[str, Reading], ...]:
    local = sum(entry.count(opcode) for opcode in LOCAL_MEMORY_OPCODES)
    numbers = (
        ("spills/bytes", entry.spill_store_bytes + entry.spill_load_bytes, "byte"),
        ("local-memory/instructions", local, "count"),
        ("registers/budget-used", 100.0 * entry.highest_register / spec.max_registers, "%"),
        ("registers/highest", entry.highest_register, "count"),
        ("instructions/violations", violations, "count"),
        ("stack/bytes", entry.stack_bytes, "byte"),
        ("shared/bytes", entry.static_shared_bytes + entry.dynamic_shared_bytes, "byte"),
    )
    return tuple((name, Measured(value=float(value), unit=unit)) for name, value, unit in numbers)


def _violations(spec: EntrySpec, entry: EntryBuild) -> tuple[str, ...]:
    absent = tuple(f"no {opcode} in the machine code" for opcode in spec.requires if not entry.count(opcode))
    return (*absent, *entry.warnings, *_waits(spec, entry))


def _waits(spec: EntrySpec, entry: EntryBuild) -> tuple[str, ...]:
    """Detect a serialised loop, which waits about once per warpgroup MMA."""
    limit = spec.max_waits_per_hgmma
    count = entry.count(WARPGROUP_MMA)
    if limit is None or entry.waits <= limit * count:
        return ()
    return (f"{entry.waits} WARPGROUP.DEPBAR for {count} {WARPGROUP_MMA}: more than {limit:g} each",)
