"""Subjects: the subject e4m3_accuracy over a kernel with one bug of ``mutants.toml``."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
ORIGINAL, MUTANT = "kernel/subjects/e4m3_accuracy.py", "kernel/defects/mutant.py"

SUBJECT = ""
"""``accuracy-`` and the mutant's name without ``e4m3-``. The worker sets it."""


def _load(file: str) -> ModuleType:
    module = ModuleType(f"flashcore_{pathlib.PurePath(file).stem}_for_accuracy")
    vars(module)["__file__"] = str(KERNEL.parent / file)
    SourceFileLoader(module.__name__, str(KERNEL.parent / file)).exec_module(module)
    return module


_original, _mutant = _load(ORIGINAL), _load(MUTANT)


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the mutant."""
    vars(_mutant)["SUBJECT"] = _get_mutant()
    spec: dict[str, Any] = _mutant.build(root)
    return {**spec, "binding": list(dict.fromkeys([*spec["binding"], *_original.FILES, ORIGINAL, MUTANT]))}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the original's work."""
    symbol = f"mutant_{_get_mutant().replace('-', '_')}"
    return {**_original.problem(_drop_defect(params)), "entries": [f"{symbol}_helper", symbol]}


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the original's inputs."""
    tensors: dict[str, Any] = _original.inputs(_drop_defect(params), seed)
    return tensors


load, outputs, run, reference = _original.load, _original.outputs, _original.run, _original.reference


def _get_mutant() -> str:
    return f"e4m3-{SUBJECT.removeprefix('accuracy-')}"


def _drop_defect(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "defect"}
