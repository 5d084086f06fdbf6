"""Subject: a correct kernel next to which a kernel of the subject ``defects`` runs. No digest of this subject covers that one.

Parameters: ``n``, and ``by``: python (a library opened by ctypes, as a package keeps it) or cpp (one that C++ opens).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "kernel/defects"
FACTOR = 2.0
OTHER = "defects/libflashcore_defects.so"
WAYS = ("python", "cpp")

_libraries: dict[str, Path] = {}


def build(root: Path) -> dict[str, Any]:  # noqa: ARG001 - part of the interface
    """Build the correct kernel."""
    return {
        "library": "libflashcore_borrowing.so",
        "launchers": [f"{FOLDER}/borrowing_launch.cu"],
        "includes": [FOLDER],
        "binding": [],
        "entries": [
            {"symbol": "defect_borrowing", "source": f"{FOLDER}/borrowing.cu", "max_registers": 64, "dynamic_shared_bytes": 0}
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of the correct kernel."""
    if params["by"] not in WAYS:
        raise ValueError(f"by: must be one of {', '.join(WAYS)}, is {params['by']!r}")
    return {"flops": 2.0 * params["n"], "bytes": 12.0 * params["n"], "entries": ["defect_borrowing"]}


def load(library: Path) -> None:
    """Keep the path, and that of the other subject's library next to it."""
    _libraries.update(own=library, other=library.parents[1] / OTHER)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw x and y from a normal distribution: fp32, shape (n,)."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    x, y = (torch.randn(int(params["n"]), device="cuda", generator=generator) for _ in range(2))
    return {"x": x, "y": y, "by": params["by"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out``."""
    import torch

    return {"out": torch.empty_like(inputs["x"])}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch both kernels on the current stream. RuntimeError if CUDA refuses one."""
    import torch

    by_cpp = str(_libraries["other"]).encode() if inputs["by"] == "cpp" else None
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (inputs["x"], inputs["y"], outputs["out"])]
    numbers = (
        ctypes.c_int64(inputs["x"].numel()),
        ctypes.c_float(FACTOR),
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
    )
    if inputs["by"] == "python":
        _check(ctypes.CDLL(str(_libraries["other"])).flashcore_defect_launch(b"sound", *pointers, pointers[0], *numbers))
    _check(ctypes.CDLL(str(_libraries["own"])).flashcore_borrowing_launch(by_cpp, *pointers, *numbers))


def _check(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"a launch: CUDA error {status}")


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the same with PyTorch in the inputs' dtype."""
    return {"out": FACTOR * inputs["x"] + inputs["y"]}
