"""Kernels of Liger-Kernel (Triton)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import F, subject, use

if TYPE_CHECKING:  # the versions that evidence depends on
    import liger_kernel
    import torch
    import triton

WIDE = "f16 2048x4096"
SIZE = 2048 * 4096


class rms_norm:
    takes, gives, flops = {"x": WIDE, "weight": "f16 4096"}, WIDE, 4 * SIZE
    run = lambda x, weight: use("liger_kernel.ops.rms_norm").rms_norm_forward(x, weight, 1e-6, 0.0, "llama", False)[0]
    reference = lambda x, weight: F().rms_norm(x, x.shape[-1:], weight, 1e-6)


class layer_norm:
    takes, gives, flops = {"x": WIDE, "weight": "f16 4096", "bias": "f16 4096"}, WIDE, 8 * SIZE
    run = lambda x, weight, bias: use("liger_kernel.ops.layer_norm").layer_norm_forward(x, weight, bias, 1e-5)[0]
    reference = lambda x, weight, bias: F().layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


class softmax:
    takes, gives, flops = {"x": WIDE}, WIDE, 5 * SIZE
    run = lambda x: use("liger_kernel.ops.softmax")._softmax_forward(x)[0]
    reference = lambda x: F().softmax(x, -1)


class swiglu:
    takes, gives, flops = {"gate": WIDE, "up": WIDE}, WIDE, 6 * SIZE
    run = lambda gate, up: use("liger_kernel.ops.swiglu").swiglu_forward(gate, up)[2]
    reference = lambda gate, up: F().silu(gate) * up


class geglu:
    takes, gives, flops = {"gate": WIDE, "up": WIDE}, WIDE, 10 * SIZE
    run = lambda gate, up: use("liger_kernel.ops.geglu").geglu_forward(gate, up)[2]
    reference = lambda gate, up: F().gelu(gate, approximate="tanh") * up


class poly_norm:
    takes, gives, flops = {"x": WIDE, "weight": "f16 3", "bias": "f16 1"}, WIDE, 16 * SIZE
    run = lambda x, weight, bias: use("liger_kernel.ops.poly_norm").poly_norm_forward(x, weight, bias, 1e-6)[0]

    def reference(x, weight, bias):
        parts = (F().rms_norm(x**power, x.shape[-1:], None, 1e-6) for power in (3, 2, 1))
        return sum(w * part for w, part in zip(weight, parts, strict=True)) + bias


class fused_add_rms_norm:
    takes = {"x": WIDE, "residual": WIDE, "weight": "f16 4096"}
    gives, flops = {"normed": WIDE, "sum": WIDE}, 5 * SIZE

    def run(x, residual, weight):
        from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward

        return fused_add_rms_norm_forward(x, residual, weight, 1e-6, 0.0, "llama")[:2]

    reference = lambda x, residual, weight: (F().rms_norm(x + residual, x.shape[-1:], weight, 1e-6), x + residual)


class cross_entropy:
    takes, gives, flops = {"x": "f16 1024x32000", "target": "i64<32000 1024"}, "f16 1024", 4 * 1024 * 32000

    def run(x, target):
        from liger_kernel.ops.cross_entropy import cross_entropy_forward

        return cross_entropy_forward(x, target, None, -100, 0.0, 0.0, "none", None, False)[0]

    reference = lambda x, target: F().cross_entropy(x, target, reduction="none")


build, problem, load, inputs, outputs, run, reference = subject(globals())
