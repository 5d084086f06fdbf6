"""The trusted side of the subjects that cheat: out = sin(3 sin(3 sin(3 sin(3 x)))). The candidate never sees this file.

Parameters of a workload: ``cheat`` (a name in candidate.py), ``n`` (float32 elements).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

STEPS = 4


def build(root: Path) -> None:
    """The work is PyTorch's."""


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count two operations per step and element."""
    return {"flops": 2.0 * STEPS * params["n"], "bytes": 8.0 * params["n"], "entries": []}


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw normal numbers, and name the cheat."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    return {"x": torch.randn(int(params["n"]), device="cuda", generator=generator), "cheat": params["cheat"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out``."""
    import torch

    return {"out": torch.empty_like(inputs["x"])}


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the result with PyTorch."""
    out = inputs["x"]
    for _ in range(STEPS):
        out = (out * 3.0).sin()
    return {"out": out}
