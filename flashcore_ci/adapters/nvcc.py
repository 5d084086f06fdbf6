"""nvcc: the command lines to compile and link, and the parsers of its output."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.options import CompileOptions

LINK_OPTIONS = ("-shared", "-cudart", "static", "-nodlink", "-Xlinker", "--no-undefined")
"""Without a device link, which would put random names into the library. An undefined function fails here, not when
the library is loaded."""

MOST_OPTIMIZATION = 3
ASSEMBLER_RULE = "as.d"
CHECKOUT = "/proc/self/cwd"
"""The checkout in line numbers and the module's id. Compilers believe ``PWD``. nvcc does not, so a last ``orig_src_path_name`` counts."""

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_BYTES = r"(?<![0-9])([0-9]{1,12}) bytes"  # bounded, or a message of digits takes quadratic time
_FRAME = re.compile(rf"{_BYTES} stack frame, {_BYTES} spill stores, {_BYTES} spill loads")
_USED = re.compile(r"Used ([0-9]{1,12}) registers")
_SHARED = re.compile(rf"{_BYTES} smem")
_CUMULATIVE = re.compile(rf"{_BYTES} cumulative stack size")
_LOSS = re.compile(r"\(C75(?:0[89]|1\d)\)|Potential Performance Loss")
_LINE = re.compile(r'^# \d+(?: "((?:[^"\\]|\\.)*)".*)?$')
_MARKER = r"^\# \d[^\n]*\n\s*"
_MARKER_OR_BLANKS = re.compile(  # all but a single blank, of which there are 100,000
    rf"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|{_MARKER}|(?:[^\S ]\s*| \s+)(?:{_MARKER})?""", re.MULTILINE
)
_LINK_ERROR = re.compile(r"(?:undefined reference to|multiple definition of|cannot find|undefined symbol) .+")
_PREFIX = re.compile(r"^ptxas (?:info|warning)\s*:\s*")
_NAMED = re.compile(r"'([^']+)'")

_ERRORS = (
    re.compile(r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[^:]*)?: (?P<message>.+)$"),
    re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<message>.+)$"),
    re.compile(r"^(?:ptxas|nvlink|fatbinary|cicc|nvcc)\s+(?:[^,;\n]+, line \d+; )?(?:error|fatal)\s*: (?P<message>.+)$"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxasInfo:
    """What ptxas printed of an entry function and its callees, in bytes per thread (shared memory: per block)."""

    registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    static_shared_bytes: int = 0
    warnings: tuple[str, ...] = ()


def options_of(options: CompileOptions) -> tuple[str, ...]:
    """Return the compiler's options for one architecture. Digests cover them, so their order must stay."""
    virtual = options.architecture.replace("sm_", "compute_")
    level = options.optimization
    chosen = (
        (options.flush_denormals, "-ftz=true"),
        (not options.precise_division, "-prec-div=false"),
        (not options.precise_square_root, "-prec-sqrt=false"),
        (not options.fused_multiply_add, "-fmad=false"),
        (options.extended_lambda, "--extended-lambda"),
        (options.relaxed_constexpr, "--expt-relaxed-constexpr"),
    )
    return (
        *(f"-std={options.standard}", f"-O{level}", *(("--use_fast_math",) if options.fast_math else ())),
        *("-Xptxas", "-v,-warn-lmem-usage" if level == MOST_OPTIMIZATION else f"-v,-warn-lmem-usage,-O{level}"),
        *("-lineinfo", f"-gencode=arch={virtual},code={options.architecture}", "-Xcompiler", "-fPIC"),
        *(option for is_chosen, option in chosen if is_chosen),
        *(("-Xcompiler", "-fvisibility=hidden") if options.hidden_symbols else ()),
        *(f"-D{define}" for define in options.defines),
    )


def compile_argv(
    nvcc: Path,
    *,
    source: str,
    options: CompileOptions,
    includes: Sequence[str],
    headers: Sequence[str] = (),
    target: Path,
    dependencies: Path,
    keep: Path,
) -> tuple[str, ...]:
    """Compile ``source``. Leave the cubin in ``keep``, make rules in ``dependencies`` and, for the assembler, in ``keep``/as.d.

    ``headers`` are folders of libraries, searched last.
    """
    folders = (*(("-I", include) for include in includes), *(("-isystem", header) for header in headers))
    paths = tuple(part for folder in folders for part in folder)
    assembler = ("-Xcompiler", rf"-Wa\,--MD\,{keep / ASSEMBLER_RULE}")
    place = ("-Xcudafe", f"--orig_src_path_name={CHECKOUT}/{source}")
    outputs = ("-MD", "-MF", str(dependencies), "--keep", "--keep-dir", str(keep), "-o", str(target))
    return (str(nvcc), *options_of(options), *paths, *assembler, *place, *outputs, "-c", source)


def path_in_checkout(name: str, root: Path) -> str:
    """Return a compiler's name of a file, relative to ``root`` if it is there."""
    path = next((Path(name).relative_to(top) for top in (CHECKOUT, root) if Path(name).is_relative_to(top)), None)
    return path.as_posix() if path is not None else name


def link_argv(nvcc: Path, *, objects: Sequence[Path], library: Path, lib: Path) -> tuple[str, ...]:
    """Link ``objects`` and the static CUDA runtime in ``lib``."""
    return (str(nvcc), *LINK_OPTIONS, *map(str, objects), "-o", str(library), "-L", str(lib))


def version_argv(nvcc: Path) -> tuple[str, ...]:
    """Ask for the version."""
    return (str(nvcc), "--version")


def parse_version(text: str) -> str:
    """Return the exact version, e.g. ``13.0.88``, or an empty string."""
    found = re.search(r"^Cuda compilation tools, release [\d.]+, V([\d.]+)$", text, re.MULTILINE)
    return found[1] if found else ""


def parse_dependencies(text: str) -> tuple[str, ...]:
    """List the files of a make rule after its target."""
    _, _, names = re.sub(r"\\\n", " ", text).replace(" : ", ": ", 1).partition(": ")
    return tuple(name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |\S)+", names))


def parse_host_code(text: str, is_ours: Callable[[str], bool], module: str) -> str:
    """Extract the checkout's host code from cudafe++'s output, without device functions and the id of the ``module``."""
    lines: list[str] = []
    in_checkout, device = False, False
    for line in text.split("\n"):
        if found := _LINE.match(line):
            in_checkout = is_ours(found[1]) if found[1] is not None else in_checkout
        elif line in ("#if 0", "#endif"):
            device = line == "#if 0"
        elif in_checkout and not device:
            lines.append(line.replace(module, "\0") if module else line)
    return "\n".join(lines) + "\n"


def strip_preprocessed(text: str) -> str:
    """Remove line markers from preprocessed text, and make blanks and line breaks one blank."""
    return _MARKER_OR_BLANKS.sub(lambda found: found[1] or " ", text).strip()


def parse_resources(text: str) -> dict[str, PtxasInfo]:
    """Return what ptxas printed per entry function and its callees. A warning counts for those it names, else for all.

    ValueError if an entry function has two results: a message of the source may look like a line of ptxas.
    """
    infos: dict[str, PtxasInfo] = {}
    warnings: list[str] = []
    entry = ""
    for line in text.splitlines():
        if _LOSS.search(line):
            warnings.append(_PREFIX.sub("", line).strip())
        elif found := _ENTRY.search(line):
            entry = found[1]
            if entry in infos:
                raise ValueError(f"ptxas printed {entry} twice")
            infos[entry] = PtxasInfo()
        elif entry:
            infos[entry] = _read_line(infos[entry], line)
    return {symbol: replace(info, warnings=_warnings_of(symbol, warnings, set(infos))) for symbol, info in infos.items()}


def _read_line(info: PtxasInfo, line: str) -> PtxasInfo:
    if found := _FRAME.search(line):
        return replace(
            info,
            stack_bytes=max(info.stack_bytes, int(found[1])),
            spill_store_bytes=info.spill_store_bytes + int(found[2]),
            spill_load_bytes=info.spill_load_bytes + int(found[3]),
        )
    if used := _USED.search(line):
        if info.registers:
            raise ValueError("ptxas printed the registers of an entry function twice")
        shared, cumulative = _SHARED.search(line), _CUMULATIVE.search(line)
        return replace(
            info,
            registers=int(used[1]),
            static_shared_bytes=int(shared[1]) if shared else 0,
            stack_bytes=max(info.stack_bytes, int(cumulative[1]) if cumulative else 0),
        )
    return info


def _warnings_of(symbol: str, warnings: list[str], entries: set[str]) -> tuple[str, ...]:
    def concerns(warning: str) -> bool:
        named = entries.intersection(_NAMED.findall(warning))
        return not named or symbol in named

    return tuple(dict.fromkeys(warning for warning in warnings if concerns(warning)))


def first_error(text: str) -> CompileError | None:
    """Return the first error in the output, if any."""
    for line in text.splitlines():
        for pattern in _ERRORS:
            if found := pattern.match(line.strip()):
                groups = found.groupdict()
                return CompileError(file=groups.get("file", ""), line=int(groups.get("line", 0)), message=groups["message"])
    return None


def link_error(text: str, library: str) -> CompileError | None:
    """Return the linker's first error without object files, if any."""
    found = _LINK_ERROR.search(text)
    return CompileError(file=library, line=0, message=found[0].strip()) if found else None
