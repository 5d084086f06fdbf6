"""Subjects: FlashCore's attention or decode, each with one bug of ``mutants.toml``.

Edited sources go to ``build/mutants/NAME`` in the checkout, which comes first on the include path.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
ENTRIES, EDITS = "kernel/defects/entries.py", "kernel/defects/edits.py"
VARLEN, COMBINE, E4M3 = "src/varlen.cu", "src/combine.cu", "include/flashcore/attention/e4m3/launcher.h"
PREPARE = "flashcore_attention_prepare"  # lays out sequences of different lengths. Only mutants of paged entries have it
TRANSPOSE = "flashcore_e4m3_transpose_values"  # runs before attention in E4M3
SUFFIXES = {PREPARE: "prepare", TRANSPOSE: "helper"}

SUBJECT = ""
"""The mutant's name. The worker sets it to the subject's name in the suite."""

_library: pathlib.Path | None = None


def _get_operation(entry: str) -> str:
    return entry.split("_")[1]


def _is_paged(entry: str) -> bool:
    return "_paged_" in entry


def _find_helper(entry: str) -> str:
    """Return the entry function that a launch of this one needs first, or nothing."""
    return PREPARE if _is_paged(entry) else TRANSPOSE if _get_operation(entry) == "e4m3" else ""


def _load_original(entry: str) -> ModuleType:
    return _load(f"flashcore_{_get_operation(entry)}_subject", _get_file(entry))


def _load(name: str, file: str) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, KERNEL.parent / file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _get_file(entry: str) -> str:
    return f"kernel/subjects/{_get_operation(entry)}.py"


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the original with the mutant's edits and its one entry function."""
    mutant, table = _find_mutant(root)
    entry, symbol = _get_entry(), _make_symbol()
    edits = [*mutant["edits"], *(table["delay"]["edits"] if mutant.get("delayed") else ())]
    instantiation = f"instantiations/{entry}.cu"
    sources = {file: _read(root, file) for file in (*(file for file, _, _ in edits), instantiation)}
    for file, old, new in edits:
        count = sources[file].count(old)
        if count != 1:
            raise ValueError(
                f"{SUBJECT}: kernel/{file} has {old.strip()!r:.80} {count} times and must be there once. Fix mutants.toml"
            )
        sources[file] = sources[file].replace(old, new)
    sources[instantiation] = re.sub(rf"\b{entry}(?=_variant\b|\b)", symbol, sources[instantiation])
    symbols = {symbol: instantiation}
    helper = _find_helper(entry)
    if helper:
        name, launcher = f"{symbol}_{SUFFIXES[helper]}", VARLEN if helper == PREPARE else E4M3
        symbols[name] = f"instantiations/{helper}.cu"
        for file in (symbols[name], launcher):
            sources[file] = re.sub(rf"\b{helper}(?=_variant\b|\b)", name, sources.get(file) or _read(root, file))
    if _get_operation(entry) == "combine":  # has one entry function, so its launcher names it
        sources[COMBINE] = re.sub(rf"\b{entry}(?=_variant\b)", symbol, sources.get(COMBINE) or _read(root, COMBINE))
    sources |= _list_variants(entry, symbol)
    folder = f"build/mutants/{SUBJECT}"
    _remove_others(root / folder, sources)
    for file, text in sources.items():
        _write(root / folder / file, text)
    original = _load_original(entry).build(root)
    names = {symbol: entry, **{f"{symbol}_{suffix}": name for name, suffix in SUFFIXES.items()}}
    specs = {spec["symbol"]: spec for spec in original["entries"]}
    return {
        "library": f"lib{symbol}.so",
        "launchers": [
            f"{folder}/{name}" if (name := file.removeprefix("kernel/")) in sources else file
            for file in original["launchers"]
            if _is_paged(entry) or file != f"kernel/{VARLEN}"
        ],
        "includes": [f"{folder}/include", *original["includes"]],
        "binding": [*original["binding"], _get_file(entry), ENTRIES, EDITS],
        "entries": [{**specs[names[name]], "symbol": name, "source": f"{folder}/{file}"} for name, file in symbols.items()],
    }


def _remove_others(folder: pathlib.Path, kept: Mapping[str, str]) -> None:
    """Remove what an earlier form of this mutant edited. The compiler would find it before the original."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith(".") and path.relative_to(folder).as_posix() not in kept:
            path.unlink(missing_ok=True)


def _list_variants(entry: str, symbol: str) -> dict[str, str]:
    """Write the headers of the operation's variants, so that the launcher knows this one only."""
    operation = _get_operation(entry)
    if operation == "combine":
        return {}
    if operation == "e4m3":
        kind = "E4M3_BLOCK" if "_block_" in entry else "E4M3"  # kernel/variants.toml
        lists = {name: f" X({symbol}_variant)" if name == kind else "" for name in ("E4M3", "E4M3_BLOCK")}
        return {
            f"include/flashcore/attention/{name.lower()}_variants.h": f"#pragma once\n#define FLASHCORE_{name}_VARIANTS(X){text}\n"
            for name, text in lists.items()
        }
    kinds = ("", "local_", *(("fp8_", "key_scales_", "ragged_", "gather_") if operation == "decode" else ()))
    macros = {f"{operation}/{kind}variants.h": f"FLASHCORE_{operation}_{kind}VARIANTS".upper() for kind in kinds}
    is_local = "_local_" in entry or "_cap_" in entry
    kind = (
        "local_"
        if is_local
        else "fp8_"
        if entry.endswith("_e4m3")
        else "ragged_"
        if "_ragged_" in entry or "_warpgroup_" in entry
        else ""
    )
    kind = next((f"{name}_" for name in ("gather", "key_scales") if f"_{name}_" in entry), kind)
    chosen = f"{operation}/{kind}variants.h"
    variants = {header: f" X({symbol}_variant)" if header == chosen else "" for header in macros}
    return {
        f"include/flashcore/{header}": f"#pragma once\n#define {macro}(X){variants[header]}\n" for header, macro in macros.items()
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the original's work."""
    entry = _get_entry()
    original = _load_original(entry).problem(_drop_defect(params))
    helper = _find_helper(entry)
    if original["entries"] != ([helper, entry] if helper else [entry]):
        raise ValueError(f"{SUBJECT}: mutates {entry}, but these parameters launch {original['entries']}")
    symbol = _make_symbol()
    return {**original, "entries": [f"{symbol}_{SUFFIXES[helper]}", symbol] if helper else [symbol]}


def load(library: pathlib.Path) -> None:
    """Keep the library's path. Other mutants share the process, so ``run`` loads it."""
    global _library  # noqa: PLW0603 - the library is the state of this module
    _library = library


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the original's inputs."""
    tensors: dict[str, Any] = _load_original(_get_entry()).inputs(_drop_defect(params), seed)
    return tensors


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate the original's outputs."""
    tensors: dict[str, Any] = _load_original(_get_entry()).outputs(inputs)
    return tensors


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch this mutant once."""
    assert _library is not None
    original = _load_original(_get_entry())
    original.load(_library)
    edits = _load("flashcore_mutant_edits", EDITS)
    with edits.edit(SUBJECT) if SUBJECT in edits.EDITS else contextlib.nullcontext():
        original.run(inputs, outputs)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the original's reference."""
    results: dict[str, Any] = _load_original(_get_entry()).reference(inputs)
    return results


@functools.cache
def _get_entry() -> str:
    """Return the entry function that this mutant edits. Every launch needs it."""
    entries: dict[str, str] = _load("flashcore_mutant_entries", ENTRIES).ENTRIES
    if SUBJECT not in entries:
        raise ValueError(f"{SUBJECT}: {ENTRIES} has no mutant of this name")
    return entries[SUBJECT]


def _make_symbol() -> str:
    return f"mutant_{SUBJECT.replace('-', '_')}"


def _drop_defect(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "defect"}


def _find_mutant(root: pathlib.Path) -> tuple[dict[str, Any], dict[str, Any]]:
    table = tomllib.loads((root / "kernel/defects/mutants.toml").read_text(encoding="utf-8"))
    mutants = [mutant for mutant in table["mutant"] if mutant["name"] == SUBJECT]
    if len(mutants) != 1:
        raise ValueError(f"{SUBJECT}: kernel/defects/mutants.toml has {len(mutants)} mutants of this name, must be one")
    return mutants[0], table


def _read(root: pathlib.Path, file: str) -> str:
    return (root / "kernel" / file).read_text(encoding="utf-8")


def _write(file: pathlib.Path, text: str) -> None:
    """Write the file atomically. Keep it, with its time, if the text is the same."""
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)
