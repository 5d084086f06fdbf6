"""Subject: planted defects. Each computes out = a * x + y in fp32, with exactly the bug that its file names.

``gates/defects.toml`` runs them. Every gate must fail on its defect and pass on ``sound``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "kernel/defects"
FACTOR = 2.0
CHAIN_FLOPS = 2 * 4096
"""FLOP per element in ``lazy.cu``: 4096 multiply-adds."""

DEFECTS = (
    "sound",
    "wrong",
    "unwritten",
    "flaky",
    "overrun",
    "overwrite",
    "misaligned",
    "race",
    "divergent",
    "uninitialised",
    "stale",
    "scattered",
    "lazy",
    "moody",
    "hang",
    "third",
    "trap",
    "spills",
    "hmma",
)
MAX_REGISTERS = {"spills": 24}
REQUIRES = {"hmma": ["HGMMA"]}

_library: ctypes.CDLL | None = None


def build(root: Path) -> dict[str, Any]:  # noqa: ARG001 - part of the interface
    """List one entry function per defect. ``flashcore_ci/model/subject.py`` describes the fields."""
    return {
        "library": "libflashcore_defects.so",
        "launchers": [f"{FOLDER}/launch.cu"],
        "includes": [FOLDER],
        "binding": [],
        "entries": [
            {
                "symbol": f"defect_{name}",
                "source": f"{FOLDER}/{name}.cu",
                "max_registers": MAX_REGISTERS.get(name, 64),
                "dynamic_shared_bytes": 0,
                "requires": REQUIRES.get(name, []),
                "max_waits_per_hgmma": None,
            }
            for name in DEFECTS
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of one defect."""
    name, n = params["defect"], int(params["n"])
    if name not in DEFECTS:
        raise ValueError(f"defect: must be one of {', '.join(DEFECTS)}, is {name!r}")
    return {"flops": float(n * (CHAIN_FLOPS if name == "lazy" else 2)), "bytes": 12.0 * n, "entries": [f"defect_{name}"]}


def load(library: Path) -> None:
    """Load the shared library and declare its one function."""
    global _library  # noqa: PLW0603 - the library is the state of this module
    _library = ctypes.CDLL(str(library))
    pointer = ctypes.c_void_p
    _library.flashcore_defect_launch.argtypes = [
        ctypes.c_char_p,
        pointer,
        pointer,
        pointer,
        pointer,
        ctypes.c_int64,
        ctypes.c_float,
        pointer,
    ]
    _library.flashcore_defect_launch.restype = ctypes.c_int


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw x and y from a normal distribution: fp32, shape (n,)."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    x, y = (torch.randn(int(params["n"]), device="cuda", generator=generator) for _ in range(2))
    return {"x": x, "y": y, "defect": params["defect"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out``."""
    import torch

    return {"out": torch.empty_like(inputs["x"])}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch the defect on the current stream. RuntimeError if CUDA refuses the launch."""
    import torch

    x, y, out = inputs["x"], inputs["y"], outputs["out"]
    scratch = torch.empty_like(x) if inputs["defect"] == "uninitialised" else x
    stream = torch.cuda.current_stream().cuda_stream
    assert _library is not None
    status = _library.flashcore_defect_launch(
        inputs["defect"].encode(), x.data_ptr(), y.data_ptr(), out.data_ptr(), scratch.data_ptr(), x.numel(), FACTOR, stream
    )
    if status != 0:
        raise RuntimeError(f"launch of defect {inputs['defect']}: CUDA error {status}")


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the same with PyTorch in the inputs' dtype."""
    return {"out": FACTOR * inputs["x"] + inputs["y"]}
