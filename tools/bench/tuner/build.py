"""Compiles candidates here, without a GPU, and rejects what the compiler did badly: spills, serialised wgmma, errors."""

from __future__ import annotations

import json
import sys
import threading
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import nvcc, process
from tuner import shapes
from tuner.choice import MASKS
from tuner.space import Candidate, of_table

TIMEOUT = 600.0  # seconds, of one compilation
MANIFEST = "candidates.json"
SOURCES = ("kernel/src/attention.cu", "kernel/src/abi.cu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where candidates are made: the repository, the compiler, the folder for what it makes, and the host's objects."""

    root: Path
    compiler: Path
    out: Path
    objects: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A candidate that was compiled: its library, or why it was rejected."""

    candidate: Candidate
    base: bool
    rejected: str = ""
    registers: int = 0


def table(root: Path) -> dict[str, Any]:
    """kernel/variants.toml."""
    return tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))


def sources(root: Path, candidate: Candidate, tile: Mapping[str, Any]) -> dict[str, str]:
    """The generated files of one candidate, as if kernel/variants.toml named nothing else: fp16, full and causal."""
    import generate_instantiations as generator  # noqa: PLC0415 - found beside tune.py

    whole = table(root)
    entries = [{"symbol": _symbol(mask), "tile": "candidate", "dtype": "fp16", "causal": mask == "causal"} for mask in MASKS]
    whole["attention"] |= {"tiles": {"candidate": {**tile, **candidate.fields()}}, "entries": entries}
    files = {path: text for path, text in generator.render(whole).items() if "stream" not in path}
    if candidate.tile_n in shapes.defined((root / shapes.HEADER).read_text(encoding="utf-8")):
        return files
    extra = '#include "flashcore/ptx/wgmma.cuh"\n' + shapes.specialisation(candidate.tile_n)
    return {path: extra + text if path.endswith(".cu") else text for path, text in files.items()}


def compile_all(
    root: Path, wanted: Iterable[tuple[Candidate, Mapping[str, Any], bool]], compiler: Path, out: Path, jobs: int
) -> list[Built]:
    """Compile candidates (with the table that each starts from, and whether it is the one in use) into ``out``/NAME.so."""
    work = list(wanted)
    done = {built.candidate.name: built for built in read(out)} if (out / MANIFEST).is_file() else {}
    shop = Workshop(root=root, compiler=compiler, out=out)
    shop = replace(shop, objects=_launchers(shop, work[0][0], work[0][1]))

    def one(item: tuple[Candidate, Mapping[str, Any], bool]) -> Built:
        candidate, tile, base = item
        kept = done.get(candidate.name)
        if kept is not None and (kept.rejected or library(out, candidate).is_file()):
            return kept
        built = _compile(shop, candidate, tile, base=base)
        sys.stderr.write(f"{candidate.name}: {built.rejected or f'{built.registers} registers at launch'}\n")
        with lock:  # after each, so that an interrupted search goes on where it stopped
            done[candidate.name] = built
            write(out, done.values())
        return built

    lock = threading.Lock()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(one, work))


def write(out: Path, built: Iterable[Built]) -> None:
    """Keep what was compiled, for `tune.py measure`."""
    records = [
        {**one.candidate.fields(), "base": one.base, "rejected": one.rejected, "registers": one.registers} for one in built
    ]
    (out / MANIFEST).write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def read(out: Path) -> list[Built]:
    """What was compiled into ``out``."""
    return [
        Built(
            candidate=of_table({key: value for key, value in record.items() if key != "base"}),
            base=record["base"],
            rejected=record["rejected"],
            registers=record["registers"],
        )
        for record in json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    ]


def library(out: Path, candidate: Candidate) -> Path:
    """Where the candidate's library lies."""
    return out / f"{candidate.name}.so"


def _symbol(mask: str) -> str:
    return f"flashcore_attention_candidate_{mask}"


def _launchers(shop: Workshop, candidate: Candidate, tile: Mapping[str, Any]) -> tuple[Path, ...]:
    """The host code, compiled once: every candidate has the same two names."""
    header = "kernel/include/flashcore/attention/variants.h"
    overlay = shop.out / "host/include"
    target = overlay / Path(header).relative_to("kernel/include")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(sources(shop.root, candidate, tile)[header], encoding="utf-8")
    objects = []
    for source in SOURCES:
        made = shop.out / "host" / f"{Path(source).stem}.o"
        done = _nvcc(shop, source, made, [str(overlay.resolve()), "kernel/include"])
        if done.returncode:
            raise ValueError(f"{source}: {_why(done)}")
        objects.append(made)
    return tuple(objects)


def _compile(shop: Workshop, candidate: Candidate, tile: Mapping[str, Any], *, base: bool) -> Built:
    folder = shop.out / candidate.name
    folder.mkdir(parents=True, exist_ok=True)
    made, registers = [], 0
    for path, text in sources(shop.root, candidate, tile).items():
        if not path.endswith(".cu"):
            continue
        source = folder / Path(path).name
        source.write_text(text, encoding="utf-8")
        made.append(source.with_suffix(".o"))
        done = _nvcc(shop, str(source.resolve()), made[-1], ["kernel/include"])
        infos = nvcc.parse_resources(done.error_text()).values()
        registers = max([registers, *(info.registers for info in infos)])
        if objection := _why(done) if done.returncode else objection_to(infos):
            return Built(candidate=candidate, base=base, rejected=objection, registers=registers)
    target = library(shop.out, candidate)
    objects = [str(path.resolve()) for path in [*made, *shop.objects]]
    link = [str(shop.compiler), *nvcc.LINK_OPTIONS, *objects, "-o", str(target.resolve())]
    done = process.run(link, logs=folder, name="link", timeout=TIMEOUT, cwd=shop.root)
    rejected = f"link: {_why(done)}" if done.returncode else ""
    return Built(candidate=candidate, base=base, rejected=rejected, registers=registers)


def objection_to(infos: Iterable[nvcc.PtxasInfo]) -> str:
    """What is wrong with what ptxas made; empty when nothing is."""
    for info in infos:
        if info.spill_store_bytes or info.spill_load_bytes:
            return f"spills {info.spill_store_bytes} bytes"
        if info.warnings:
            return info.warnings[0][:160]
    return ""


def _nvcc(shop: Workshop, source: str, target: Path, includes: list[str]) -> process.Completed:
    paths = [part for include in includes for part in ("-I", include)]
    argv = ["nice", str(shop.compiler), *nvcc.OPTIONS, *paths, "-o", str(target.resolve()), "-c", source]
    return process.run(argv, logs=target.parent, name=target.stem, timeout=TIMEOUT, cwd=shop.root)


def _why(done: process.Completed) -> str:
    if done.timed_out:
        return "the compiler took too long"
    error = nvcc.first_error(done.error_text())
    return error.message[:160] if error else f"nvcc ended with {done.returncode}"
