"""Subjects in, libraries and build evidence out."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path

from flashcore_ci.adapters import nvcc
from flashcore_ci.bounded import files
from flashcore_ci.build import library, objects, python_imports
from flashcore_ci.build.cache import Cache
from flashcore_ci.build.compiler import BuildContext, find_host_compiler
from flashcore_ci.build.external import ExternalLibrary
from flashcore_ci.build.external import find as find_libraries
from flashcore_ci.build.objects import CompiledUnit, Unit
from flashcore_ci.build.records import BuildSet, read_builds, refuse_foreign, write_builds
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.system_files import SystemFiles
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.model.devices import ARCHITECTURES
from flashcore_ci.model.errors import EvidenceError, SuiteError
from flashcore_ci.model.evidence import BuildEvidence, CompileError, EntryBuild
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec
from flashcore_ci.store.files import write_atomically

Progress = Callable[[int, int, str], None]
"""Called with (compilations done, compilations in all, last source)."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_.+][A-Za-z0-9_.+-]*)*/?")
"""No blank, comma, dollar or at sign, and no part that begins with a dash."""
TOOL = "flashcore_ci/"
Results = dict[str, CompiledUnit | CompileError]


def build_subjects(
    descriptions: Sequence[Description],
    *,
    root: Path,
    toolchain: Toolchain,
    out: Path,
    cache: Path,
    jobs: int,
    progress: Progress,
    python: Path | None = None,
    prefix: Path | None = None,
) -> tuple[BuildEvidence, ...]:
    """Build every subject into ``out/<subject>/<library>`` with at most ``jobs`` compilers, and write ``build.json``.

    A source that does not compile is evidence (``BuildEvidence.error``). SuiteError if a subject names paths outside the
    checkout, CannotCollectError if this machine cannot compile. Libraries are found in ``prefix`` or the packages of ``python``.
    """
    sources = Sources(root)
    _check_paths(descriptions, sources)
    refuse_foreign(out, [f"{d.subject}/{d.build.library}" for d in descriptions if d.build is not None])
    kept = Cache(folder=cache / "objects")
    host = find_host_compiler()
    folders = (*toolchain.includes, *host.includes)
    specs = [description.build for description in descriptions if description.build is not None]
    names = sorted({name for spec in specs for name in spec.compile.libraries})
    external = find_libraries(names, python=python, prefix=prefix, cuda=toolchain.top, cache=cache)
    library_folders = tuple(library.folder for library in external.values())
    system = SystemFiles(root=sources.root, toolchain=toolchain.top, folders=folders, libraries=library_folders)
    context = BuildContext(
        sources=sources, toolchain=toolchain, host=host, system=system, cache=kept, out=out, libraries=external
    )
    units = {unit.key: unit for spec in specs for unit in _units(spec, context)}
    results = _compile(tuple(units.values()), context, jobs, progress)
    builds = tuple(_build_evidence(description, results, context) for description in descriptions)
    write_builds(out, BuildSet(builds=builds, sources=_source_digests(descriptions, sources)))
    return builds


def load_builds(folder: Path, descriptions: Sequence[Description], *, root: Path) -> tuple[BuildEvidence, ...]:
    """Read the builds in ``folder``. EvidenceError as ``read_builds``, and if sources (not comments) differ."""
    build_set = read_builds(folder)
    sources = Sources(root)
    _check_paths(descriptions, sources)
    here, built = dict(_source_digests(descriptions, sources)), dict(build_set.sources)
    for subject in (build.subject for build in build_set.builds if build.subject in here):
        if built.get(subject) != here[subject]:
            raise EvidenceError(f"{folder}: {subject} was built from other sources than this checkout has", fix="build again")
    return build_set.builds


def _source_digests(descriptions: Sequence[Description], sources: Sources) -> tuple[tuple[str, str], ...]:
    return tuple((description.subject, source_digest(description, sources)) for description in descriptions)


def source_digest(description: Description, sources: Sources) -> str:
    """Digest the canonical text of all sources of a subject. Two builds of one digest are the same code."""
    spec = description.build
    if spec is None:
        return sources.python_digest([description.file, *description.candidate], exact=bool(description.candidate))
    files = {path for source in all_sources(spec) for path in sources.closure(source, spec.includes)}
    python_files = [description.file, *description.candidate, *spec.binding]
    python = sources.python_digest(python_files, exact=bool(description.candidate))
    options = nvcc.options_of(spec.compile)
    return digest_of("sources", options, spec.includes, all_sources(spec), sources.c_digest(sorted(files)), python)


def all_sources(spec: BuildSpec) -> tuple[str, ...]:
    """Entry functions come first: their errors are shown first."""
    return tuple(dict.fromkeys((*(entry.source for entry in spec.entries), *spec.launchers)))


def _units(spec: BuildSpec, context: BuildContext) -> list[Unit]:
    return [objects.make_unit(source, spec.includes, spec.compile, context) for source in all_sources(spec)]


def _check_paths(descriptions: Sequence[Description], sources: Sources) -> None:
    problems: list[str] = []
    imported = functools.cache(lambda path: python_imports.always_imported(path, sources))
    for description in descriptions:
        if (spec := description.build) is None:
            continue
        where, names = f"{description.file}: build", (spec.library, description.subject)
        paths = (*all_sources(spec), *spec.includes, *spec.binding)
        outside = [path for path in paths if not sources.is_inside(path)]
        problems += [f"{where}: {path} is not a path inside the checkout" for path in outside]
        strange = (path for path in paths if path not in outside and not _PLAIN_PATH.fullmatch(path))
        problems += [f"{where}: {path!r} is no plain path. A compiler could take it for an option" for path in strange]
        problems += [f"{where}: {name!r} is not a plain file name" for name in names if name in ("", ".", "..") or "/" in name]
        problems += _lacking(description.file, spec.binding, imported) if not problems else ()
    if problems:
        raise SuiteError(tuple(problems))


def _lacking(file: str, binding: Sequence[str], imported: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yield what a subject imports and does not name: its digests would not cover it, if another subject of a process names it."""
    named = {file, *binding}
    for source in sorted(named):
        for lacking in imported(source):
            if lacking not in named and not lacking.startswith(TOOL):
                yield f"{file}: build: binding lacks {lacking}, which {source} imports"


def _compile(units: Sequence[Unit], context: BuildContext, jobs: int, progress: Progress) -> Results:
    def compile_one(unit: Unit) -> CompiledUnit | CompileError:
        if not context.sources.exists(unit.source):
            return CompileError(file=unit.source, line=0, message="no such file")
        return objects.compile_unit(unit, context)

    results: Results = {unit.key: cached for unit in units if (cached := objects.cached_unit(unit, context)) is not None}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running = {pool.submit(compile_one, unit): unit for unit in units if unit.key not in results}
        try:
            for future in as_completed(running):
                results[running[future].key] = future.result()
                progress(len(results), len(units), running[future].source)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _build_evidence(description: Description, results: Results, context: BuildContext) -> BuildEvidence:
    sources, spec = context.sources, description.build
    subject_files = [description.file, *description.candidate]
    others, is_isolated = (spec.binding if spec is not None else ()), bool(description.candidate)
    subject = sources.python_digest(subject_files, others, exact=is_isolated)
    if spec is None:
        problems = sources.problems((), subject_files)
        return BuildEvidence(
            subject=description.subject,
            compiler="",
            options=(),
            library="",
            library_digest="",
            launcher="",
            binding="",
            source=subject,
            entries=(),
            error=problems[0] if problems else None,
        )
    units = _units(spec, context)
    by_source = {unit.source: results[unit.key] for unit in units}
    compiled = {path: unit for path, unit in by_source.items() if isinstance(unit, CompiledUnit)}
    entries = [_entry_evidence(entry, by_source[entry.source], spec.compile.architecture) for entry in spec.entries]
    failed = _find_problems(description.file, spec, sources)
    failed += [result for result in (*by_source.values(), *entries) if isinstance(result, CompileError)]
    failed += find_unnamed_entries(spec, by_source)
    failed += [CompileError(file=path, line=0, message="no such file") for path in spec.binding if not sources.exists(path)]
    external = [context.libraries[name] for name in spec.compile.libraries]
    linked = failed[0] if failed else _link(f"{description.subject}/{spec.library}", list(compiled.values()), external, context)
    error = linked if isinstance(linked, CompileError) else None
    return BuildEvidence(
        subject=description.subject,
        compiler=context.toolchain.compiler,
        options=nvcc.options_of(spec.compile),
        library="" if isinstance(linked, CompileError) else f"{description.subject}/{spec.library}",
        library_digest="" if isinstance(linked, CompileError) else linked.digest,
        launcher=_launcher_digest(spec, sources, by_source, external),
        binding=sources.python_digest(spec.binding, [description.file], exact=is_isolated),
        source=subject,
        entries=tuple(entry for entry in entries if isinstance(entry, EntryBuild)),
        error=error,
        preprocessed=""
        if isinstance(linked, CompileError)
        else digest_of([compiled[path].preprocessed for path in spec.launchers]),
        host_objects=""
        if isinstance(linked, CompileError)
        else digest_of(linked.host_code, [(path, unit.host_object) for path, unit in compiled.items()]),
    )


def _find_problems(file: str, spec: BuildSpec, sources: Sources) -> list[CompileError]:
    """Find what could make other programs have the same digest. A missing file is another error."""
    c_files = {path for source in all_sources(spec) for path in sources.closure(source, spec.includes)}
    python_files = [path for path in (file, *spec.binding) if sources.exists(path)]
    return sources.problems(sorted(c_files), python_files)


def find_unnamed_entries(spec: BuildSpec, units: Mapping[str, CompiledUnit | CompileError]) -> list[CompileError]:
    """Find entry functions that ``build()`` does not name: no gate would judge them."""
    named = {(entry.source, entry.symbol) for entry in spec.entries}
    advice = "which build() does not name: name it in `entries`, or remove it"
    return [
        CompileError(file=source, line=0, message=f"defines the entry function {entry.symbol}, {advice}")
        for source, unit in units.items()
        if isinstance(unit, CompiledUnit)
        for entry in unit.entries
        if (source, entry.symbol) not in named
    ]


def _launcher_digest(
    spec: BuildSpec, sources: Sources, units: Mapping[str, CompiledUnit | CompileError], external: Sequence[ExternalLibrary]
) -> str:
    """Digest the host code of the whole library: the launchers, and that next to each entry function, in link order."""
    files = {path for launcher in spec.launchers for path in sources.closure(launcher, spec.includes)}
    host_code = [(path, unit.host_code) for path, unit in units.items() if isinstance(unit, CompiledUnit)]
    texts = sources.c_digest(sorted(files))
    options = (nvcc.options_of(spec.compile), nvcc.LINK_OPTIONS)
    used = [(library.name, library.digest) for library in external]
    return digest_of("launcher", *options, spec.includes, spec.launchers, texts, host_code, *used)


def _entry_evidence(spec: EntrySpec, result: CompiledUnit | CompileError, architecture: str) -> EntryBuild | CompileError:
    if isinstance(result, CompileError):
        return result
    compiled = result.entry(spec.symbol)
    if compiled is None:
        defined = ", ".join(entry.symbol for entry in result.entries) or "none"
        message = f"defines no entry function named {spec.symbol} (it defines {defined})"
        return CompileError(file=spec.source, line=0, message=message)
    shared, limit = compiled.resources.static_shared_bytes + spec.dynamic_shared_bytes, ARCHITECTURES[architecture].shared_bytes
    if shared > limit:
        message = f"{spec.symbol} takes {shared} byte of shared memory per block, and {architecture} has at most {limit}"
        return CompileError(file=spec.source, line=0, message=message)
    code, warnings = compiled.code, compiled.resources.warnings
    if (count := code.unfenced_tma_stores) > 0:  # TMA may read old values then
        warnings += (f"{count} TMA stores from shared memory without a proxy fence after ordinary stores to it",)
    return EntryBuild(
        symbol=spec.symbol,
        source=spec.source,
        digest=digest_of("entry", spec.symbol, result.machine_code, result.host_code),
        highest_register=code.highest_register,
        dynamic_shared_bytes=spec.dynamic_shared_bytes,
        opcodes=code.opcodes,
        waits=code.waits,
        **asdict(replace(compiled.resources, warnings=warnings)),
    )


def _link(
    name: str, units: Sequence[CompiledUnit], external: Sequence[ExternalLibrary], context: BuildContext
) -> library.LinkedLibrary | CompileError:
    linked = library.link(units, external, name, context)
    if isinstance(linked, library.LinkedLibrary):
        write_atomically(context.out / name, files.read(context.cache.product_path(linked.key), limit=files.MAX_BINARY))
    return linked
