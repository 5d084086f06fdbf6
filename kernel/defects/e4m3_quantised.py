"""Subject: the subject e4m3_quantised, called wrongly as ``defect`` says.

``sound``, ``other-signs`` (queries and keys are transformed with other signs), ``transformed`` (which the reference is not).
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

ORIGINAL = "kernel/subjects/e4m3_quantised.py"
KERNEL = pathlib.Path(__file__).resolve().parents[1]
OTHER_SIGNS = (1, 2, 3, 4)

_original = ModuleType("flashcore_quantised_for_defects")
vars(_original)["__file__"] = str(KERNEL.parent / ORIGINAL)
SourceFileLoader(_original.__name__, str(KERNEL.parent / ORIGINAL)).exec_module(_original)


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the original."""
    spec: dict[str, Any] = _original.build(root)
    return {**spec, "binding": [*spec["binding"], ORIGINAL]}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the original's work."""
    work: dict[str, Any] = _original.problem(_drop_defect(params))
    return work


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the original's inputs, and plant the defect."""
    given: dict[str, Any] = _original.inputs(_drop_defect(params), seed)
    changes = {"sound": {}, "other-signs": {"k_signs": OTHER_SIGNS}, "transformed": {"q_signs": OTHER_SIGNS}}
    return {**given, **changes[params["defect"]]}


load, outputs, run, reference = _original.load, _original.outputs, _original.run, _original.reference


def _drop_defect(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "defect"}
