"""Read the machine code of kernels that a framework compiles at run time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import elf
from flashcore_ci.bounded import files
from flashcore_ci.build import objects
from flashcore_ci.collect import child, isolation
from flashcore_ci.collect.resources import readings_of
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import EntryBuild, JitModule, Observation
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.jit import LIBRARY
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.subject import EntrySpec
from flashcore_ci.model.suite import Kind, Workload

Readings = tuple[tuple[str, Reading], ...]
CUBIN = re.compile(r"[0-9a-f]{64}\.cubin")
REGISTERS, REGISTERS_PER_THREAD, WARP, UNIT = 65536, 255, 32, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One kernel that was launched: its cubins (more than one if its name does not decide), and all launches."""

    kernel: str
    launches: tuple[tuple[str, str], ...]
    shared_bytes: int
    cubins: tuple[tuple[str, Path, str], ...]


def collect(session: Session) -> tuple[Observation, ...]:
    """Return one observation per workload, each of a process of its own."""
    workloads = session.workloads(Kind.MACHINE_CODE)
    with ThreadPoolExecutor(isolation.AT_ONCE) as pool:
        return tuple(pool.map(partial(_collect, session), workloads))


def modules_of(session: Session, workload: Workload) -> tuple[JitModule, ...]:
    """Return what frameworks compile for a workload, or nothing if it cannot be told."""
    found = _run(session, workload)
    return () if isinstance(found, Missing) else found[1]


def _collect(session: Session, workload: Workload) -> Observation:
    found = _run(session, workload)
    if isinstance(found, Missing):
        return session.observation(Kind.MACHINE_CODE, workload, missing=found)
    launched, modules = found
    observe = partial(session.observation, Kind.MACHINE_CODE, workload, jit=modules)
    if unknown := next((one.kernel for one in launched if not one.cubins), ""):
        return observe(missing=Missing(code=Code.NO_MACHINE_CODE, message=f"{unknown[:120]} ran, and no cubin of it was found"))
    try:
        seen = [_read_first(session, one, copies) for one in launched for copies in _copies(one)]
    except (KeyError, ValueError) as error:
        return observe(missing=Missing(code=Code.NO_MACHINE_CODE, message=f"a cubin cannot be read: {error}"))
    return observe(readings=_worst([readings for readings, _ in seen]), notes=tuple(note for _, notes in seen for note in notes))


def _run(session: Session, workload: Workload) -> tuple[tuple[Launched, ...], tuple[JitModule, ...]] | Missing:
    """Run the workload in a process, and read what it launched."""

    def make_job(workloads: tuple[Workload, ...]) -> child.JobSpec:
        return session.job("machine_code", f"machine-code-{workload.id}", workloads, seconds=session.seconds(Kind.MACHINE_CODE))

    result = isolation.run_isolated((workload,), make_job, is_healthy=session.is_healthy, at_once=1)[workload.id]
    if result.missing is not None:
        return result.missing
    try:
        launched = tuple(read_launched(result.values, result.result_file.parent / "cubins"))
        build = session.build(workload.subject)
        sources = "" if build is None else digest_of(build.source, build.dependencies)
        return launched, tuple(read_modules(launched, result.values, sources))
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        return Missing(code=Code.INVALID_RESULT, message=f"the worker's machine code cannot be read: {error!r:.200}")


def read_launched(values: Mapping[str, Any], folder: Path) -> Iterator[Launched]:
    """Yield the kernels in the order of their first launch. ValueError for a malformed result."""
    cubins = [(str(framework), folder / _checked(name), str(exact)) for framework, name, exact in values["cubins"]]
    symbols = {path: _entries(path) for _, path, _ in cubins}
    launches: dict[str, list[tuple[str, str, int]]] = {}
    for kernel, grid, block, shared in values["launches"]:
        launches.setdefault(str(kernel), []).append((str(grid), str(block), int(shared)))
    for kernel, found in launches.items():
        matching = [
            (framework, path, symbol, exact)
            for framework, path, exact in cubins
            for symbol in symbols[path]
            if is_symbol_of(symbol, kernel)
        ]
        exact_only = [one for one in matching if one[3]]
        yield Launched(
            kernel=kernel,
            launches=tuple((kernel, f"{grid}/{block}") for grid, block, _ in found),
            shared_bytes=max(shared for *_, shared in found),
            cubins=tuple((framework, path, symbol) for framework, path, symbol, _ in exact_only or matching),
        )


def read_modules(launched: Sequence[Launched], values: Mapping[str, Any], sources: str) -> Iterator[JitModule]:
    """Yield a module per kernel and cubin, one without a digest for each kernel without a cubin, and other libraries."""
    choices = {
        str(name): tuple(sorted((str(k), str(v)) for k, v in chosen.items())) for name, chosen in values["choices"].items()
    }
    for one in launched:
        for framework, path, symbol in one.cubins:
            digest = elf.read(files.read(path, limit=objects.MAX_CUBIN, follow=False), "").digest
            module = JitModule(framework=framework, name=symbol, digest=digest, sources=sources, launches=one.launches)
            yield replace(module, configuration=choices.pop(symbol, ()))
        if not one.cubins:
            yield JitModule(framework=LIBRARY, name=one.kernel, digest="", sources=sources, launches=one.launches)
    for name, configuration in choices.items():
        yield JitModule(
            framework="autotuner", name=name, digest=digest_of(configuration), sources=sources, configuration=configuration
        )
    for name, digest in values["libraries"]:
        yield JitModule(framework=LIBRARY, name=Path(str(name)).name, digest=str(digest), sources=sources)


def is_symbol_of(symbol: str, kernel: str) -> bool:
    """Tell whether a symbol is this kernel, which PyTorch's profiler names without mangling."""
    if symbol == kernel:
        return True
    plain = re.match(r"(?:void )?(?:[\w()]+::)*(\w+)(?:<.*|\(.*)?$", kernel, re.DOTALL)
    return symbol.startswith("_Z") and plain is not None and f"{len(plain[1])}{plain[1]}" in symbol


def _entries(cubin: Path) -> tuple[str, ...]:
    """Return the entry functions of a cubin, none if it cannot be read."""
    data = files.read(cubin, limit=objects.MAX_CUBIN, follow=False)
    try:
        return elf.read(data, "").entries
    except ValueError:
        return ()


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not CUBIN.fullmatch(name):
        raise ValueError(f"{name!r:.80} is not the name of a cubin")
    return name


def _copies(one: Launched) -> list[list[tuple[Path, str]]]:
    """Group cubins of equal machine code. nvdisasm refuses some of the driver's cache."""
    groups: dict[tuple[str, str], list[tuple[Path, str]]] = {}
    for _, path, symbol in one.cubins:
        digest = elf.read(files.read(path, limit=objects.MAX_CUBIN, follow=False), "").digest
        groups.setdefault((symbol, digest), []).append((path, symbol))
    return list(groups.values())


def _read_first(session: Session, one: Launched, copies: Sequence[tuple[Path, str]]) -> tuple[Readings, tuple[str, ...]]:
    """Observe the first of equal cubins that can be read. ValueError if none can."""
    for cubin, symbol in copies[:-1]:
        with contextlib.suppress(KeyError, ValueError):
            return _read(session, one, cubin, symbol)
    return _read(session, one, *copies[-1])


def _read(session: Session, one: Launched, cubin: Path, symbol: str) -> tuple[Readings, tuple[str, ...]]:
    """Observe an entry function as if nvcc had compiled it."""
    data = files.read(cubin, limit=objects.MAX_CUBIN, follow=False)
    code = elf.read(data, "")
    registers, stack = elf.resources(data)[symbol]
    if session.nvdisasm is None:
        raise ValueError("nvdisasm was not found")
    work = session.scratch / "disassembled" / cubin.stem
    work.mkdir(parents=True, exist_ok=True)
    function = objects.with_callees(symbol, objects.disassemble(cubin, work, session.nvdisasm), code.entries)
    unfenced = function.unfenced_tma_stores
    entry = EntryBuild(
        symbol=symbol,
        source="",
        digest=code.digest,
        registers=registers,
        highest_register=function.highest_register,
        spill_store_bytes=stack,
        spill_load_bytes=0,
        stack_bytes=stack,
        static_shared_bytes=one.shared_bytes,
        dynamic_shared_bytes=0,
        opcodes=function.opcodes,
        waits=function.waits,
        warnings=(f"{unfenced} TMA stores from shared memory without a proxy fence",) if unfenced else (),
    )
    budget = min(register_budget(launch.partition("/")[2]) for _, launch in one.launches)
    spec = EntrySpec(symbol=symbol, source="", max_registers=budget, dynamic_shared_bytes=0)
    count = sum(number for _, number in function.opcodes)
    note = (
        f"{symbol}: {registers} registers of {budget}, {stack} byte local memory, {one.shared_bytes} byte shared memory, "
        f"{count} instructions, launches: {len(one.launches)}, the first with {one.launches[0][1]}"
    )
    readings, violations = readings_of(spec, entry)
    return (*readings, ("instructions/count", Measured(value=float(count), unit="count"))), (note, *violations)


def register_budget(block: str) -> int:
    """Return how many registers a thread of this block (``x,y,z``) may have. ValueError for other texts."""
    x, y, z = (int(size) for size in block.split(","))
    warps = max(1, -(-x * y * z // WARP))
    return min(REGISTERS_PER_THREAD, REGISTERS // (warps * WARP) // UNIT * UNIT)


def _worst(seen: Sequence[Readings]) -> Readings:
    """Return the largest of each reading over all kernels."""
    columns = zip(*seen, strict=True)
    return tuple(max(column, key=lambda pair: pair[1].value if isinstance(pair[1], Measured) else 0.0) for column in columns)
