"""Subject: the bits of a prompt with planted defects, and without one (``sound``).

``gates/invariance-defects.toml`` runs them. Each way of invariance.py has one: what the function returns depends on how it was called.
The defects of ``ALIKE`` are in every launch, so their bits agree.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FILES = ("kernel/subjects/invariance.py",)
DEFECTS = {
    "sound": "",
    "batch": "attend_next_to",
    "pages": "attend_to_pages",
    "pieces": "attend_in_pieces",
    "graph": "attend_in_a_graph",
    "margin": "attend_with_margin",
}
"""The function of each defect, and of its way."""
ALIKE = ("first-value-lost", "rounded-lse", "unwritten-row")  # of every launch


def _load_sound() -> ModuleType:
    module = ModuleType("flashcore_subjects_invariance")
    module.__file__ = str(KERNEL / "subjects/invariance.py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


sound = _load_sound()
load, outputs, reference = sound.load, sound.outputs, sound.reference
_whole = {name: getattr(sound, name) for name in DEFECTS.values() if name}


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the attention kernels."""
    whole = sound.build(root)
    return {**whole, "binding": [*whole["binding"], *FILES]}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of the sound subject."""
    if params["defect"] not in (*DEFECTS, *ALIKE):
        raise ValueError(f"defect: must be one of {', '.join((*DEFECTS, *ALIKE))}, is {params['defect']!r}")
    found: dict[str, Any] = sound.problem(_of_sound(params))
    return found


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the tensors of the sound subject."""
    return {**sound.inputs(_of_sound(params), seed), "defect": params["defect"]}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch the next variant with its defect."""
    if inputs["defect"] in ALIKE:
        _run_alike(inputs, outputs)
    else:
        _run_differently(inputs, outputs)


def _run_alike(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    import torch

    defect = inputs["defect"]
    if defect == "first-value-lost":
        v = inputs["v"].clone()
        v[:, 0] = 0
        inputs = {**inputs, "v": v}
    whole = {name: torch.empty_like(tensor) for name, tensor in outputs.items()}
    sound.run(inputs, whole)
    lse = whole["lse"].half() if defect == "rounded-lse" else whole["lse"]
    rows = slice(0, -1 if defect == "unwritten-row" else None)
    outputs["out"][:, rows].copy_(whole["out"][:, rows])
    outputs["lse"].copy_(lse)


def _run_differently(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Return one element with another last bit."""
    name = DEFECTS[inputs["defect"]]
    if name:
        vars(sound)[name] = lambda *arguments: _nudge(_whole[name](*arguments))
    try:
        sound.run(inputs, outputs)
    finally:
        vars(sound).update(_whole)


def _nudge(result: tuple[Any, Any]) -> tuple[Any, Any]:
    import torch

    out, lse = result[0].contiguous(), result[1]
    out.view(torch.int16)[0, 0, 0] ^= 1
    return out, lse


def _of_sound(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "defect"}
