"""Four kernels that are compiled when they run: Triton, Triton with an autotuner, torch.compile and NVRTC."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUBJECT = ""
NVRTC = """
extern "C" __global__ void scale_nvrtc(const float *x, float *y, long long n)
{
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) y[at] = 2.0f * x[at];
}
"""
FLOAT_BYTES = 4
kernels: dict[str, Any] = {}


def build(root: Path) -> None:
    """There is no machine code at build time."""


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work: each element is read and written once."""
    n = params["rows"] * params["columns"]
    return {"flops": 5.0 * n, "bytes": 2.0 * FLOAT_BYTES * n, "entries": []}


def load(library: Path | None) -> None:
    """Make the kernel of this subject."""
    import torch

    assert library is None
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    if SUBJECT.startswith("triton"):
        import softmax_kernel

        kernels[SUBJECT] = softmax_kernel.softmax if SUBJECT == "triton" else softmax_kernel.scale
    elif SUBJECT == "compiled":
        kernels[SUBJECT] = torch.compile(lambda x, y: y.copy_(torch.softmax(x, -1)))
    else:
        kernel = torch.cuda._compile_kernel(NVRTC, "scale_nvrtc")

        def launch(x: Any, y: Any) -> None:
            kernel((-(-x.numel() // 256), 1, 1), (256, 1, 1), (x, y, x.numel()))

        kernels[SUBJECT] = launch


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw a matrix."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    return {"x": torch.randn(params["rows"], params["columns"], device="cuda", generator=generator)}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a matrix of this size."""
    import torch

    return {"y": torch.empty_like(inputs["x"])}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch."""
    kernels[SUBJECT](inputs["x"], outputs["y"])


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the same with PyTorch."""
    import torch

    return {"y": torch.softmax(inputs["x"], -1) if SUBJECT in {"triton", "compiled"} else 2.0 * inputs["x"]}
