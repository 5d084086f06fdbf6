"""Subject: out = a * x + y in float32, the simplest memory-bound kernel.

Parameters of a workload: ``n`` (elements), ``a`` (default 1.5), ``scale`` (of the inputs, default 1), ``max_ctas``.
"""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]


def _load_neighbour(name: str) -> ModuleType:
    module = ModuleType(f"flashcore_subjects_{name}")
    SourceFileLoader(module.__name__, str(KERNEL / f"subjects/{name}.py")).exec_module(module)
    return module


package = _load_neighbour("package")
FLOAT_BYTES = 4
ARRAYS = 3  # x and y are read once, out is written once

DEFAULTS: dict[str, Any] = {"n": None, "a": 1.5, "scale": 1.0, "max_ctas": 0}


def build(root: pathlib.Path) -> dict[str, Any]:
    """Read the build and its limits from kernel/variants.toml."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))["stream"]
    entries = [{**table["tiles"][entry["tile"]], **entry} for entry in table["entries"]]
    return {
        **{key: table[key] for key in ("library", "launchers", "includes", "binding")},
        "entries": [
            {
                "symbol": entry["symbol"],
                "source": f"kernel/instantiations/{entry['symbol']}.cu",
                "max_waits_per_hgmma": None,
                **{key: entry[key] for key in ("max_registers", "requires", "dynamic_shared_bytes")},
            }
            for entry in entries
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of one workload."""
    n = _complete(params)["n"]
    return {"flops": 2.0 * n, "bytes": float(ARRAYS * FLOAT_BYTES * n), "entries": ["flashcore_stream_axpy_f32"]}


def load(library: pathlib.Path) -> None:
    """Use this library."""
    package.load(KERNEL, library)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw arrays on the current CUDA device, and add the options."""
    import torch

    p = _complete(params)
    generator = torch.Generator(device="cuda").manual_seed(seed)
    x, y = (torch.randn(p["n"], device="cuda", generator=generator) for _ in range(2))
    if p["scale"] != 1:
        x, y = x.mul_(p["scale"]), y.mul_(p["scale"])
    return {"x": x, "y": y, "a": p["a"], "max_ctas": p["max_ctas"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out``."""
    import torch

    return {"out": torch.empty_like(inputs["x"])}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    import flashcore

    flashcore.stream_axpy(inputs["a"], inputs["x"], inputs["y"], out=outputs["out"], max_ctas=inputs["max_ctas"])


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the same with PyTorch in the inputs' precision."""
    import torch

    return {"out": torch.add(inputs["y"], inputs["x"], alpha=inputs["a"])}


def _complete(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter. Choose from {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    if not isinstance(p["n"], int) or p["n"] < 0:
        raise ValueError(f"n: must be a whole number of elements, zero or more, is {p['n']!r}")
    return p
