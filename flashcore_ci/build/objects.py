"""Compile one source, and cache the object with the evidence that came out of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from flashcore_ci.adapters import elf, host_elf, nvcc, nvdisasm, process
from flashcore_ci.bounded import files
from flashcore_ci.build import tokens
from flashcore_ci.build.compiler import COMPILE_SECONDS, BuildContext, diagnose_failure
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.options import CompileOptions

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
    """One compiled source.

    ``host_code`` digests the host functions next to entry functions, ``preprocessed`` and ``host_object`` what this machine's
    compiler read and made. ``system_files`` are those outside of the checkout, with the digest ``system``.
    """

    key: str
    digest: str
    machine_code: str
    host_code: str
    preprocessed: str
    host_object: str
    system_files: tuple[str, ...]
    system: str
    entries: tuple[CompiledEntry, ...]
    schema: Literal["unit-v2"] = "unit-v2"

    def entry(self, symbol: str) -> CompiledEntry | None:
        """Return this entry function, if this source defines it."""
        return next((entry for entry in self.entries if entry.symbol == symbol), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One source to compile. ``reads``: the files that it may include, with the digest ``content``."""

    source: str
    options: CompileOptions
    includes: tuple[str, ...]
    reads: tuple[str, ...]
    content: str
    key: str


def make_unit(source: str, includes: Sequence[str], options: CompileOptions, context: BuildContext) -> Unit:
    """Describe the compilation of ``source``. Its key covers tools, options and all files of the checkout that it may read.

    The checkout's path does not count: no object holds it.
    """
    reads = context.sources.closure(source, includes)
    content = context.sources.bytes_digest(reads)
    tools = (CompiledUnit.__name__, context.toolchain.digest, context.host.identity, nvcc.options_of(options))
    libraries = [(name, context.libraries[name].digest) for name in options.libraries]
    key = digest_of(*tools, tuple(includes), nvcc.CHECKOUT, source, content, *libraries)
    return Unit(source=source, options=options, includes=tuple(includes), reads=reads, content=content, key=key)


def cached_unit(unit: Unit, context: BuildContext) -> CompiledUnit | None:
    """Return the compiled unit from the cache, if every file that the compiler read is as it was then."""
    cached = context.cache.load(CompiledUnit, unit.key)
    return cached if cached is not None and cached.system == context.system.digest(unit.includes, cached.system_files) else None


def compile_unit(unit: Unit, context: BuildContext) -> CompiledUnit | CompileError:
    """Compile and disassemble ``unit`` into ``cache``. CompileError for a wrong source, CannotCollectError for the machine's."""
    sources, toolchain = context.sources, context.toolchain
    with context.cache.workspace() as work:
        made, rule = work / "unit.o", work / "unit.d"
        command = nvcc.compile_argv(
            toolchain.nvcc,
            source=unit.source,
            options=unit.options,
            includes=unit.includes,
            headers=[context.libraries[name].headers for name in unit.options.libraries],
            target=made,
            dependencies=rule,
            keep=work,
        )
        environment = {**context.host.environment, "TMPDIR": str(work), "PWD": nvcc.CHECKOUT}
        completed = process.run(command, logs=work, name="nvcc", timeout=COMPILE_SECONDS, cwd=sources.root, env=environment)
        output = "".join(_read_whole(file, files.MAX_LOG) for file in (completed.stderr, completed.stdout))
        error = diagnose_failure(completed, output, nvcc.first_error(output), unit.source)
        error = error or _find_uncovered_file(unit, work, context)
        if error is not None:
            return replace(error, file=nvcc.path_in_checkout(error.file, sources.root))
        compiled = _read_outputs(unit, work, output, context)
        if Sources(sources.root).bytes_digest(unit.reads) != unit.content:
            raise CannotCollectError(f"{unit.source} or a file that it includes changed during compilation", fix="build again")
        context.cache.keep(unit.key, made, compiled)
    return compiled


def _find_uncovered_file(unit: Unit, work: Path, context: BuildContext) -> CompileError | None:
    """Refuse a file without a digest that the compiler or the assembler read."""
    root, system = context.sources.root, context.system
    rules = [nvcc.parse_dependencies(_read_whole(work / name, files.MAX_LOG)) for name in ("unit.d", nvcc.ASSEMBLER_RULE)]
    if not all(rules):
        raise CannotCollectError(f"the compiler of {unit.source} did not list the files that it read", fix="flashcore-ci doctor")
    for name in rules[0]:
        path = files.resolve(Path(root, name))
        plain = Path(os.path.normpath(Path(root, name)))  # a link's own name
        names = (path, plain) if files.resolve(plain) == path else (path,)
        is_listed = any(each.is_relative_to(root) and each.relative_to(root).as_posix() in unit.reads for each in names)
        if not is_listed and (system.is_ours(name) or not system.is_header(path)):
            message = f"reads {name}, which no plain #include in the checkout names, so no digest covers it"
            return CompileError(file=unit.source, line=0, message=message)
    translated = f"{Path(unit.source).stem}.cudafe1.cpp"
    for name in rules[1]:
        if not (Path(name).is_relative_to(work) or (name == translated and not Path(root, name).exists()) or name == unit.source):
            message = f"makes the assembler read {PurePosixPath(name)}, so no digest covers it"
            return CompileError(file=unit.source, line=0, message=message)
    return None


def _read_whole(path: Path, limit: int) -> str:
    """Read a compiler's output, empty if absent. CannotCollectError if it is longer: no digest or gate would see the rest."""
    try:
        return files.read(path, limit=limit, follow=False).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        what = f"what the compiler wrote to {path.name} cannot be read: {error.strerror}"
        raise CannotCollectError(what, fix="divide the source") from None


def _read_outputs(unit: Unit, work: Path, output: str, context: BuildContext) -> CompiledUnit:
    """Read the evidence in the cubin. A host-only source has none."""
    stem, made = Path(unit.source).stem, files.read(work / "unit.o", limit=files.MAX_BINARY)
    module = process.read_text(work / f"{stem}.module_id")
    preprocessed = _read_whole(work / f"{stem}.cpp4.ii", MAX_TRANSLATED)
    names = (
        str(files.resolve(Path(context.sources.root, name)))
        for name in nvcc.parse_dependencies(process.read_text(work / "unit.d"))
    )
    system_files = tuple(sorted({name for name in names if not context.system.is_ours(name)}))
    entries: tuple[CompiledEntry, ...] = ()
    machine_code = host_code = ""
    try:
        host_object = host_elf.object_digest(made, module)
        if (cubin := _find_cubin(work)) is not None:
            machine_code, entries = _read_cubin(unit, cubin, module, output, context.toolchain)
    except ValueError as error:
        raise CannotCollectError(f"cannot read the machine code of {unit.source}: {error}", fix="flashcore-ci doctor") from None
    if machine_code:
        translated = _read_whole(work / f"{stem}.cudafe1.cpp", MAX_TRANSLATED)
        headers = [(path, tokens.directives(context.sources.text(path))) for path in unit.reads]
        host_code = digest_of(tokens.canonical(nvcc.parse_host_code(translated, context.system.is_ours, module)), headers)
    return CompiledUnit(
        key=unit.key,
        digest=hashlib.sha256(made).hexdigest(),
        machine_code=machine_code,
        host_code=host_code,
        preprocessed=digest_of("preprocessed", nvcc.strip_preprocessed(preprocessed) or unit.content),
        host_object=host_object,
        system_files=system_files,
        system=context.system.digest(unit.includes, system_files),
        entries=entries,
    )


def _find_cubin(work: Path) -> Path | None:
    """Find the one cubin. CUDA 12 puts the architecture into its name. ValueError for two."""
    found = sorted(work.glob("*.cubin"))
    if len(found) > 1:
        raise ValueError(f"the compiler wrote {len(found)} cubins")
    return found[0] if found else None


def _read_cubin(unit: Unit, cubin: Path, module: str, output: str, toolchain: Toolchain) -> tuple[str, tuple[CompiledEntry, ...]]:
    code = elf.read(files.read(cubin, limit=MAX_CUBIN), module)
    functions = disassemble(cubin, cubin.parent, toolchain.nvdisasm) if code.entries else ()
    printed = nvcc.parse_resources(output)
    missing = sorted(set(code.entries) - {symbol for symbol, info in printed.items() if info.registers})
    if missing:
        raise CannotCollectError(f"ptxas printed no resources of {missing[0]} in {unit.source}", fix="flashcore-ci doctor")
    codes = {symbol: with_callees(symbol, functions, code.entries) for symbol in code.entries}
    return code.digest, tuple(CompiledEntry(symbol=symbol, resources=printed[symbol], code=codes[symbol]) for symbol in codes)


def disassemble(cubin: Path, work: Path, tool: Path) -> tuple[nvdisasm.Function, ...]:
    """Disassemble a cubin. ValueError if nvdisasm refuses it."""
    completed = process.run(nvdisasm.argv(tool, cubin), logs=work, name="nvdisasm", timeout=DISASSEMBLE_SECONDS)
    if process.stopping():
        raise InterruptedRunError("the run was stopped")
    if completed.returncode != 0 or completed.timed_out:
        raise ValueError(f"nvdisasm failed: {completed.error_text().strip()[:200] or f'exit status {completed.returncode}'}")
    return nvdisasm.parse(completed.text(limit=MAX_DISASSEMBLY))


def with_callees(symbol: str, functions: Sequence[nvdisasm.Function], entries: Sequence[str]) -> nvdisasm.Function:
    """Add to an entry function the functions that it alone calls."""
    others = [other for other in entries if other != symbol]
    callees_of_others = tuple(f"${other}$" for other in others)
    own = (function for function in functions if not (function.name in others or function.name.startswith(callees_of_others)))
    return nvdisasm.merge(tuple(own), name=symbol)
