"""Subjects: FlashCore's attention, each with one thing wrong; ``mutants.toml`` lists the edits, the suite names a subject each.

Edited copies of the sources go to ``build/mutants/NAME`` in the checkout, and that folder comes first on the include path.
"""

from __future__ import annotations

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
REAL = "kernel/subjects/attention.py"
VARIANTS = "include/flashcore/attention/variants.h"
RAGGED = "kernel/src/varlen.cu"  # needs an entry function that a mutant has not

SUBJECT = ""
"""The mutant that this module is: the worker puts the subject's name in the suite here."""

_library: pathlib.Path | None = None


def _real() -> ModuleType:
    """The subject of the real kernel."""
    name = "flashcore_attention_subject"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, KERNEL.parent / REAL)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def build(root: pathlib.Path) -> dict[str, Any]:
    """The real build with this mutant's one entry function; ValueError when an edit does not fit the sources any more."""
    mutant, table = _mutant(root)
    entry, symbol = mutant["entry"], _symbol()
    edits = [*mutant["edits"], *(table["delay"]["edits"] if mutant.get("delayed") else ())]
    instantiation = f"instantiations/{entry}.cu"
    changed = {file: _read(root, file) for file in (*(file for file, _, _ in edits), instantiation, VARIANTS)}
    for file, old, new in edits:
        if changed[file].count(old) != 1:
            raise ValueError(f"{SUBJECT}: {old.strip()!r:.80} stands {changed[file].count(old)} times in kernel/{file}, not once")
        changed[file] = changed[file].replace(old, new)
    changed[instantiation] = re.sub(rf"\b{entry}(?=_variant\b|\b)", symbol, changed[instantiation])
    changed[VARIANTS] = f"#pragma once\n#define FLASHCORE_ATTENTION_VARIANTS(X) X({symbol}_variant)\n"
    folder = f"build/mutants/{SUBJECT}"
    for file, text in changed.items():
        _write(root / folder / file, text)
    real = _real().build(root)
    (spec,) = (spec for spec in real["entries"] if spec["symbol"] == entry)
    return {
        "library": f"lib{symbol}.so",
        "launchers": [
            f"{folder}/{within}" if (within := file.removeprefix("kernel/")) in changed else file
            for file in real["launchers"]
            if file != RAGGED
        ],
        "includes": [f"{folder}/include", *real["includes"]],
        "binding": [*real["binding"], REAL],
        "entries": [{**spec, "symbol": symbol, "source": f"{folder}/{instantiation}"}],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """As the real kernel's; the entry function is the mutant's."""
    real = _real().problem(_plain(params))
    entry = _mutant(KERNEL.parent)[0]["entry"]
    if real["entries"] != [entry]:
        raise ValueError(f"{SUBJECT}: is {entry}, but these parameters launch {real['entries']}")
    return {**real, "entries": [_symbol()]}


def load(library: pathlib.Path) -> None:
    """Remember the library: other mutants live in this process."""
    global _library  # noqa: PLW0603 - a subject is a module; its library is its state
    _library = library


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """As the real kernel's."""
    tensors: dict[str, Any] = _real().inputs(_plain(params), seed)
    return tensors


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As the real kernel's."""
    tensors: dict[str, Any] = _real().outputs(inputs)
    return tensors


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """One launch of this mutant."""
    assert _library is not None
    _real().load(_library)
    _real().run(inputs, outputs)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As the real kernel's."""
    results: dict[str, Any] = _real().reference(inputs)
    return results


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
