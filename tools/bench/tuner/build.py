"""Compile candidates without a GPU, and reject those with spills, serialised wgmma or errors."""

from __future__ import annotations

import json
import re
import sys
import threading
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import nvcc, process
from flashcore_ci.model import options
from tuner.choice import MASKS
from tuner.space import Candidate, of_table

TIMEOUT = 600.0  # seconds of one compilation
MANIFEST = "candidates.json"
SOURCES = ("kernel/src/attention.cu", "kernel/src/abi.cu")
VARIANTS = "kernel/include/flashcore/attention/variants.h"
HEADER = "kernel/include/flashcore/ptx/wgmma.cuh"
WIDTH = re.compile(r'^\s*FLASHCORE_DEFINE_WGMMA\((?:__half, "f16"|ELEMENT, TYPE), (\d+),', re.MULTILINE)

Job = tuple[Candidate, Mapping[str, Any], bool]
"""A candidate, the table that it starts from, and whether it is the tile in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A compiled candidate. ``rejected`` is the reason why it has no library, or empty."""

    candidate: Candidate
    base: bool
    rejected: str = ""
    registers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """nvcc, the repository whose kernel it compiles, and the folder of its outputs."""

    root: Path
    program: Path
    out: Path

    def compile(self, source: Path, target: Path, *includes: str) -> process.Completed:
        """Compile one source."""
        paths = [part for include in includes for part in ("-I", include)]
        settings = options.read(tomllib.loads((self.root / "gates/hopper.toml").read_text(encoding="utf-8"))["build"])
        argv = ["nice", str(self.program), *nvcc.options_of(settings), *paths, "-o", str(target.resolve()), "-c", str(source)]
        return process.run(argv, logs=target.parent, name=target.stem, timeout=TIMEOUT, cwd=self.root)

    def link(self, objects: Iterable[Path], target: Path, logs: Path) -> process.Completed:
        """Link a library."""
        inputs = [str(path.resolve()) for path in objects]
        argv = [str(self.program), *nvcc.LINK_OPTIONS, *inputs, "-o", str(target.resolve())]
        return process.run(argv, logs=logs, name="link", timeout=TIMEOUT, cwd=self.root)


def table(root: Path) -> dict[str, Any]:
    """Read kernel/variants.toml."""
    return tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))


def widths(root: Path) -> set[int]:
    """Return the wgmma widths that the kernel's header defines."""
    return {int(width) for width in WIDTH.findall((root / HEADER).read_text(encoding="utf-8"))}


def specialisation(width: int) -> str:
    """Return ``Wgmma<__half, width>`` as ptx/wgmma.cuh would define it."""
    count = width // 2
    registers = ", ".join(f"%{index}" for index in range(count))
    operands = ", ".join(f'"+f"(d[{index}])' for index in range(count))
    names = [f"%{count + index}" for index in range(7)]
    head = f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.f16.f16 {{{registers}}}"
    return f"""
template <>
struct flashcore::ptx::Wgmma<__half, {width}> {{
    __device__ __forceinline__ static void shared(float (&d)[{count}], uint64_t a, uint64_t b, int accumulate) {{
        asm volatile(
            "{{.reg .pred p; setp.ne.b32 p, {names[2]}, 0; {head}, {names[0]}, {names[1]}, p, 1, 1, 0, 0;}}"
            : {operands}
            : "l"(a), "l"(b), "r"(accumulate));
    }}
    template <Major kMajor>
    __device__ __forceinline__ static void registers(float (&d)[{count}], const uint32_t* a, uint64_t b, int accumulate) {{
        asm volatile(
            "{{.reg .pred p; setp.ne.b32 p, {names[5]}, 0; {head}, {{{", ".join(names[:4])}}}, {names[4]}, p, 1, 1, {names[6]};}}"
            : {operands}
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(static_cast<int>(kMajor)));
    }}
}};
"""


def sources(root: Path, candidate: Candidate, tile: Mapping[str, Any]) -> dict[str, str]:
    """Generate files as if kernel/variants.toml had only this candidate, in fp16, full and causal."""
    import generate_instantiations  # noqa: PLC0415 - tune.py adds its folder to the path

    variants = table(root)
    entries = [
        {"symbol": f"flashcore_attention_candidate_{mask}", "tile": "candidate", "dtype": "fp16", "causal": mask == "causal"}
        for mask in MASKS
    ]
    variants["attention"] |= {"tiles": {"candidate": {**tile, **candidate.fields()}}, "entries": entries}
    variants["attention_local"]["entries"] = []
    files = {path: text for path, text in generate_instantiations.render(variants).items() if "attention" in path}
    if candidate.tile_n in widths(root):
        return files
    extra = '#include "flashcore/ptx/wgmma.cuh"\n' + specialisation(candidate.tile_n)
    return {path: extra + text if path.endswith(".cu") else text for path, text in files.items()}


def compile_all(compiler: Compiler, jobs: list[Job], workers: int) -> list[Built]:
    """Compile candidates, except those that an interrupted search has compiled."""
    out = compiler.out
    outcomes = {built.candidate.name: built for built in read(out)} if (out / MANIFEST).is_file() else {}
    lock, launchers = threading.Lock(), _launchers(compiler, *jobs[0][:2])

    def build(job: Job) -> Built:
        candidate, tile, base = job
        previous = outcomes.get(candidate.name)
        if previous is not None and (previous.rejected or library(out, candidate).is_file()):
            return previous
        rejected, registers = _compile(compiler, candidate, tile, launchers)
        built = Built(candidate=candidate, base=base, rejected=rejected, registers=registers)
        sys.stderr.write(f"{candidate.name}: {rejected or f'{registers} registers at launch'}\n")
        with lock:
            outcomes[candidate.name] = built
            write(out, outcomes.values())
        return built

    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(build, jobs))


def write(out: Path, candidates: Iterable[Built]) -> None:
    """Keep the outcomes for measuring."""
    records = [{**asdict(built), "candidate": built.candidate.fields()} for built in candidates]
    (out / MANIFEST).write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def read(out: Path) -> list[Built]:
    """Read the outcomes in ``out``."""
    records = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    return [Built(**{**record, "candidate": of_table(record["candidate"])}) for record in records]


def library(out: Path, candidate: Candidate) -> Path:
    """Return the path of the candidate's library."""
    return out / f"{candidate.name}.so"


def _launchers(compiler: Compiler, candidate: Candidate, tile: Mapping[str, Any]) -> list[Path]:
    """Compile the host code once, because every candidate has the same entry functions."""
    overlay = compiler.out / "host/include"
    for path, text in sources(compiler.root, candidate, tile).items():
        if path.endswith(".h"):
            target = overlay / Path(path).relative_to("kernel/include")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    objects = []
    for source in map(Path, SOURCES):
        objects.append(compiler.out / f"host/{source.stem}.o")
        completed = compiler.compile(source, objects[-1], str(overlay.resolve()), "kernel/include")
        if completed.returncode:
            raise ValueError(f"{source}: {_why(completed)}")
    return objects


def _compile(compiler: Compiler, candidate: Candidate, tile: Mapping[str, Any], launchers: list[Path]) -> tuple[str, int]:
    """Build a library. Returns the reason for a rejection, or nothing, and registers at launch."""
    folder = compiler.out / candidate.name
    folder.mkdir(parents=True, exist_ok=True)
    objects, registers = [], 0
    for path, text in sources(compiler.root, candidate, tile).items():
        if not path.endswith(".cu"):
            continue
        source = folder / Path(path).name
        source.write_text(text, encoding="utf-8")
        objects.append(source.with_suffix(".o"))
        completed = compiler.compile(source.resolve(), objects[-1], "kernel/include")
        infos = nvcc.parse_resources(completed.error_text()).values()
        registers = max([registers, *(info.registers for info in infos)])
        if objection := _why(completed) if completed.returncode else objection_to(infos):
            return objection, registers
    completed = compiler.link([*objects, *launchers], library(compiler.out, candidate), folder)
    return f"link: {_why(completed)}" if completed.returncode else "", registers


def objection_to(infos: Iterable[nvcc.PtxasInfo]) -> str:
    """Return the first spill or warning of ptxas, or nothing."""
    for info in infos:
        if info.spill_store_bytes or info.spill_load_bytes:
            return f"spills {info.spill_store_bytes} bytes"
        if info.warnings:
            return info.warnings[0][:160]
    return ""


def _why(completed: process.Completed) -> str:
    if completed.timed_out:
        return "the compiler took too long"
    error = nvcc.first_error(completed.error_text())
    return error.message[:160] if error else f"nvcc ended with {completed.returncode}"
