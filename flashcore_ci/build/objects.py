"""Compile one source, and cache the object with the evidence that came out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flashcore_ci.adapters import elf, nvcc, nvdisasm, process
from flashcore_ci.bounded import files
from flashcore_ci.build.compiler import COMPILE_SECONDS, BuildContext, diagnose_failure
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.tokens import c_tokens
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.identity import digest_of

MAX_CUBIN = MAX_DISASSEMBLY = MAX_TRANSLATED = 64 * files.MIB

DISASSEMBLE_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledEntry:
    """One entry function: what ptxas printed and what its SASS contains."""

    symbol: str
    resources: nvcc.PtxasInfo
    code: nvdisasm.Function


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledUnit:
    """One compiled source. ``host_code`` digests the host functions that headers add, such as a launch function."""

    digest: str
    machine_code: str
    host_code: str
    entries: tuple[CompiledEntry, ...]
    schema: Literal["unit-v1"] = "unit-v1"

    def entry(self, symbol: str) -> CompiledEntry | None:
        """Return this entry function, if this source defines it."""
        return next((entry for entry in self.entries if entry.symbol == symbol), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One source to compile. ``reads``: the files that it may include, with the digest ``content``."""

    source: str
    includes: tuple[str, ...]
    reads: tuple[str, ...]
    content: str
    key: str


def make_unit(source: str, includes: Sequence[str], context: BuildContext) -> Unit:
    """Describe the compilation of ``source``. Its key covers tools, options and all files that it may read.

    The key also covers the checkout's path, because line information holds absolute paths.
    """
    reads = context.sources.closure(source, includes)
    content = context.sources.bytes_digest(reads)
    tools = (CompiledUnit.__name__, context.toolchain.digest, context.host.identity, nvcc.OPTIONS)
    key = digest_of(*tools, tuple(includes), str(context.sources.root), source, content)
    return Unit(source=source, includes=tuple(includes), reads=reads, content=content, key=key)


def compile_unit(unit: Unit, context: BuildContext) -> CompiledUnit | CompileError:
    """Compile and disassemble ``unit`` into ``cache``. CompileError for a wrong source, CannotCollectError for the machine's."""
    sources, toolchain = context.sources, context.toolchain
    with context.cache.workspace() as work:
        made, rule = work / "unit.o", work / "unit.d"
        outputs = {"target": made, "dependencies": rule, "keep": work}
        command = nvcc.compile_argv(toolchain.nvcc, source=unit.source, includes=unit.includes, **outputs)
        environment = {**context.host.environment, "TMPDIR": str(work)}
        completed = process.run(command, logs=work, name="nvcc", timeout=COMPILE_SECONDS, cwd=sources.root, env=environment)
        output = completed.error_text() + completed.text()
        error = diagnose_failure(completed, output, nvcc.first_error(output), unit.source)
        error = error or _find_unlisted_header(unit, rule, sources, toolchain)
        if error is not None:
            return _make_relative(error, sources.root)
        compiled = _read_outputs(unit, work, output, toolchain)
        if Sources(sources.root).bytes_digest(unit.reads) != unit.content:
            raise CannotCollectError(f"{unit.source} or a file that it includes changed during compilation", fix="build again")
        context.cache.keep(unit.key, made, compiled)
    return compiled


def _find_unlisted_header(unit: Unit, dependencies: Path, sources: Sources, toolchain: Toolchain) -> CompileError | None:
    """Refuse a header without a digest: ``Sources.closure`` did not find it."""
    tools = toolchain.nvcc.parent.parent
    for name in nvcc.parse_dependencies(process.read_text(dependencies)):
        path = files.resolve(Path(sources.root, name))
        in_checkout = not Path(name).is_absolute() or (path.is_relative_to(sources.root) and not path.is_relative_to(tools))
        if in_checkout and not (path.is_relative_to(sources.root) and path.relative_to(sources.root).as_posix() in unit.reads):
            message = f"reads {name}, which no plain #include in the checkout names, so no digest covers it"
            return CompileError(file=unit.source, line=0, message=message)
    return None


def _read_outputs(unit: Unit, work: Path, output: str, toolchain: Toolchain) -> CompiledUnit:
    """Read the evidence in the cubin. A host-only source has none."""
    digest = files.sha256(work / "unit.o")
    cubin = work / f"{Path(unit.source).stem}.cubin"
    if not cubin.is_file():
        return CompiledUnit(digest=digest, machine_code="", host_code="", entries=())
    try:
        code = elf.read(files.read(cubin, limit=MAX_CUBIN))
        functions = _disassemble(cubin, work, toolchain) if code.entries else ()
    except ValueError as error:
        raise CannotCollectError(f"cannot read the machine code of {unit.source}: {error}", fix="flashcore-ci doctor") from None
    printed = nvcc.parse_resources(output)
    missing = sorted(set(code.entries) - set(printed))
    if missing:
        raise CannotCollectError(f"ptxas printed no resources of {missing[0]} in {unit.source}", fix="flashcore-ci doctor")
    codes = {symbol: _with_callees(symbol, functions, code.entries) for symbol in code.entries}
    entries = tuple(CompiledEntry(symbol=symbol, resources=printed[symbol], code=codes[symbol]) for symbol in codes)
    translated = process.read_text(cubin.with_suffix(".cudafe1.cpp"), limit=MAX_TRANSLATED)
    host_code = digest_of(c_tokens(nvcc.parse_host_code(translated, unit.reads)))
    return CompiledUnit(digest=digest, machine_code=code.digest, host_code=host_code, entries=entries)


def _disassemble(cubin: Path, work: Path, toolchain: Toolchain) -> tuple[nvdisasm.Function, ...]:
    completed = process.run(nvdisasm.argv(toolchain.nvdisasm, cubin), logs=work, name="nvdisasm", timeout=DISASSEMBLE_SECONDS)
    if process.stopping():
        raise InterruptedRunError("the run was stopped")
    if completed.returncode != 0 or completed.timed_out:
        raise ValueError(f"nvdisasm failed: {completed.error_text().strip()[:200] or f'exit status {completed.returncode}'}")
    return nvdisasm.parse(completed.text(limit=MAX_DISASSEMBLY))


def _with_callees(symbol: str, functions: Sequence[nvdisasm.Function], entries: Sequence[str]) -> nvdisasm.Function:
    others = [other for other in entries if other != symbol]
    callees_of_others = tuple(f"${other}$" for other in others)
    own = (function for function in functions if not (function.name in others or function.name.startswith(callees_of_others)))
    return nvdisasm.merge(tuple(own), name=symbol)


def _make_relative(error: CompileError, root: Path) -> CompileError:
    path = Path(error.file)
    return replace(error, file=path.relative_to(root).as_posix()) if path.is_absolute() and path.is_relative_to(root) else error
