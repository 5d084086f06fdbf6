"""Kernels of PyTorch: those that torch.compile makes (Triton), and its own (CUDA C++)."""

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import F, attention, attention_by, subject

if TYPE_CHECKING:  # the versions that evidence depends on
    import torch
    import triton

WIDE = "f16 4096x4096"
SIZE = 4096 * 4096
HEADS = "f16 2x1024x8x128"


@functools.cache
def compiled(name):
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    made = {"layer_norm": F().layer_norm, "cross_entropy": F().cross_entropy, "flex_attention": flex_attention}
    return torch.compile(made[name])


class compiled_layer_norm:
    takes, gives, flops = {"x": WIDE, "weight": "f16 4096", "bias": "f16 4096"}, WIDE, 8 * SIZE
    run = lambda x, weight, bias: compiled("layer_norm")(x, x.shape[-1:], weight, bias)
    reference = lambda x, weight, bias: F().layer_norm(x, x.shape[-1:], weight, bias)


class compiled_cross_entropy:
    takes, gives, flops = {"x": "f16 1024x32000", "target": "i64<32000 1024"}, "f16 1024", 4 * 1024 * 32000
    run = lambda x, target: compiled("cross_entropy")(x, target, reduction="none")
    reference = lambda x, target: F().cross_entropy(x, target, reduction="none")


class flex_attention:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, 4 * 2 * 8 * 1024 * 1024 * 128
    run = lambda q, k, v: compiled("flex_attention")(*(tensor.transpose(1, 2) for tensor in (q, k, v))).transpose(1, 2)
    reference = attention


class aten_layer_norm:
    takes, gives, flops = {"x": WIDE, "weight": "f16 4096", "bias": "f16 4096"}, WIDE, 8 * SIZE
    run = lambda x, weight, bias: F().layer_norm(x, x.shape[-1:], weight, bias)

    def reference(x, weight, bias):
        return (x - x.mean(-1, keepdim=True)) * (x.var(-1, keepdim=True, correction=0) + 1e-5).rsqrt() * weight + bias


class flash_attention_2:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, 4 * 2 * 8 * 1024 * 1024 * 128
    run = lambda q, k, v: attention_by("FLASH_ATTENTION", q, k, v)
    reference = lambda q, k, v: attention_by("MATH", q, k, v)


class cutlass_attention:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, 4 * 2 * 8 * 1024 * 1024 * 128
    run = lambda q, k, v: attention_by("EFFICIENT_ATTENTION", q, k, v)
    reference = lambda q, k, v: attention_by("MATH", q, k, v)


build, problem, load, inputs, outputs, run, reference = subject(globals())
