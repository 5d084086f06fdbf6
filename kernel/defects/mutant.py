"""Subjects: FlashCore's attention or decode, each with one thing wrong; ``mutants.toml`` lists the edits, the suite names a subject each.

Edited copies of the sources go to ``build/mutants/NAME`` in the checkout, and that folder comes first on the include path.
"""

from __future__ import annotations

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

HERE = pathlib.Path(__file__).resolve()
KERNEL = HERE.parents[1]
RAGGED = "kernel/src/varlen.cu"  # needs an entry function that a mutant has not

SUBJECT = ""
"""The mutant that this module is: the worker puts the subject's name in the suite here."""

_library: pathlib.Path | None = None


def _operation(entry: str) -> str:
    """Which kernel an entry function belongs to: flashcore_OPERATION_..."""
    return entry.split("_")[1]


def _real(entry: str) -> ModuleType:
    """The subject of the real kernel."""
    name = f"flashcore_{_operation(entry)}_subject"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, KERNEL.parent / _file(entry))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _file(entry: str) -> str:
    return f"kernel/subjects/{_operation(entry)}.py"


def build(root: pathlib.Path) -> dict[str, Any]:
    """The real build with this mutant's one entry function; ValueError when an edit does not fit the sources any more."""
    mutant, table = _mutant(root)
    entry, symbol = mutant["entry"], _symbol()
    edits = [*mutant["edits"], *(table["delay"]["edits"] if mutant.get("delayed") else ())]
    instantiation, variants = f"instantiations/{entry}.cu", f"include/flashcore/{_operation(entry)}/variants.h"
    changed = {file: _read(root, file) for file in (*(file for file, _, _ in edits), instantiation, variants)}
    for file, old, new in edits:
        if changed[file].count(old) != 1:
            raise ValueError(f"{SUBJECT}: {old.strip()!r:.80} stands {changed[file].count(old)} times in kernel/{file}, not once")
        changed[file] = changed[file].replace(old, new)
    changed[instantiation] = re.sub(rf"\b{entry}(?=_variant\b|\b)", symbol, changed[instantiation])
    changed[variants] = f"#pragma once\n#define FLASHCORE_{_operation(entry).upper()}_VARIANTS(X) X({symbol}_variant)\n"
    folder = f"build/mutants/{SUBJECT}"
    for file, text in changed.items():
        _write(root / folder / file, text)
    real = _real(entry).build(root)
    (spec,) = (spec for spec in real["entries"] if spec["symbol"] == entry)
    return {
        "library": f"lib{symbol}.so",
        "launchers": [
            f"{folder}/{within}" if (within := file.removeprefix("kernel/")) in changed else file
            for file in real["launchers"]
            if file != RAGGED
        ],
        "includes": [f"{folder}/include", *real["includes"]],
        "binding": [*real["binding"], _file(entry)],
        "entries": [{**spec, "symbol": symbol, "source": f"{folder}/{instantiation}"}],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """As the real kernel's; the entry function is the mutant's."""
    entry = _entry()
    real = _real(entry).problem(_plain(params))
    if real["entries"] != [entry]:
        raise ValueError(f"{SUBJECT}: is {entry}, but these parameters launch {real['entries']}")
    return {**real, "entries": [_symbol()]}


def load(library: pathlib.Path) -> None:
    """Remember the library: other mutants live in this process."""
    global _library  # noqa: PLW0603 - a subject is a module; its library is its state
    _library = library


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """As the real kernel's."""
    tensors: dict[str, Any] = _real(_entry()).inputs(_plain(params), seed)
    return tensors


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As the real kernel's."""
    tensors: dict[str, Any] = _real(_entry()).outputs(inputs)
    return tensors


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """One launch of this mutant."""
    assert _library is not None
    _real(_entry()).load(_library)
    _real(_entry()).run(inputs, outputs)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As the real kernel's."""
    results: dict[str, Any] = _real(_entry()).reference(inputs)
    return results


@functools.cache
def _entry() -> str:
    """The entry function that this mutant is made of; asked before every launch."""
    return str(_mutant(KERNEL.parent)[0]["entry"])


def _symbol() -> str:
    return f"mutant_{SUBJECT.replace('-', '_')}"


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "defect"}


def _mutant(root: pathlib.Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """This mutant's table, and the whole file."""
    table = tomllib.loads((root / "kernel/defects/mutants.toml").read_text(encoding="utf-8"))
    found = [mutant for mutant in table["mutant"] if mutant["name"] == SUBJECT]
    if len(found) != 1:
        raise ValueError(f"{SUBJECT}: kernel/defects/mutants.toml has {len(found)} mutants of this name")
    return found[0], table


def _read(root: pathlib.Path, file: str) -> str:
    return (root / "kernel" / file).read_text(encoding="utf-8")


def _write(file: pathlib.Path, text: str) -> None:
    """Write the file if it says something else: whole or not at all, and its time stays what it was."""
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)
