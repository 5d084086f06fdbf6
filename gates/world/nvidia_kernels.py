"""Kernels of NVIDIA's libraries cuBLAS, cuBLASLt and cuDNN, as PyTorch calls them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import F, attention_by, pytorch, subject, widen

if TYPE_CHECKING:  # the versions that evidence depends on
    import torch

SQUARE = "f16 1024x1024"
WORK = 2 * 1024**3
HEADS = "f16 1x512x4x128"  # small, like the convolution: initcheck sees no write of TMA, and reports each byte that is copied


class cublas_gemm:
    takes, gives, flops = {"a": SQUARE, "b": SQUARE}, SQUARE, WORK
    run = lambda a, b, out: pytorch().mm(a, b, out=out)
    reference = lambda a, b: widen(a, "float32") @ widen(b, "float32")


class cublas_batched_gemm:
    takes, gives, flops = {"a": "bf16 32x512x512", "b": "bf16 32x512x512"}, "bf16 32x512x512", 2 * 32 * 512**3
    run = lambda a, b, out: pytorch().bmm(a, b, out=out)
    reference = lambda a, b: widen(a, "float32") @ widen(b, "float32")


class cublaslt_int8:
    takes, gives, flops = {"a": "i8 1024x1024", "b": "i8 1024x1024"}, "i32 1024x1024", WORK
    run = lambda a, b, out: pytorch()._int_mm(a, b.T, out=out)
    reference = lambda a, b: a.double() @ b.double().T


class cublaslt_fp8:
    takes, gives, flops = {"a": "f8 1024x1024", "b": "f8 1024x1024", "one": "f32 1"}, "bf16 1024x1024", WORK
    prepare = lambda one, **_: {"one": one.new_ones(())}
    run = lambda a, b, one, out: pytorch()._scaled_mm(a, b.T, one, one, out_dtype=out.dtype, out=out)
    reference = lambda a, b, one: widen(a, "bfloat16") @ widen(b, "bfloat16").T


class cublaslt_gelu:
    takes, gives, flops = {"a": SQUARE, "b": SQUARE, "bias": "f16 1024"}, SQUARE, WORK
    run = lambda a, b, bias, out: pytorch()._addmm_activation(bias, a, b, use_gelu=True, out=out)
    reference = lambda a, b, bias: F().gelu(a @ b + bias, approximate="tanh")


class cudnn_convolution:
    takes, gives, flops = {"x": "f16 4x64x56x56", "w": "f16 64x64x3x3"}, "f16 4x64x56x56", 2 * 4 * 64 * 64 * 9 * 56 * 56
    run = lambda x, w: F().conv2d(x, w, padding=1)
    reference = lambda x, w: (w.flatten(1) @ F().unfold(x, 3, padding=1)).view_as(x)


class cudnn_attention:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, 4 * 4 * 512 * 512 * 128
    run = lambda q, k, v: attention_by("CUDNN_ATTENTION", q, k, v)
    reference = lambda q, k, v: attention_by("MATH", q, k, v)


build, problem, load, inputs, outputs, run, reference = subject(globals())
