"""Kernels of SageAttention 1 (Triton): int8 products."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import attention, subject, use

if TYPE_CHECKING:  # the versions that evidence depends on
    import sageattention
    import torch
    import triton

HEADS = "f16 2x1024x8x128"
WORK = 4 * 2 * 8 * 1024 * 1024 * 128


class attention_default:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, WORK
    run = lambda q, k, v: use("sageattention").sageattn(q, k, v, tensor_layout="NHD")
    reference = attention


class attention_unsmoothed:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, WORK
    run = lambda q, k, v: use("sageattention").sageattn(q, k, v, tensor_layout="NHD", smooth_k=False)
    reference = attention


class attention_causal:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, WORK // 2
    run = lambda q, k, v: use("sageattention").sageattn(q, k, v, tensor_layout="NHD", smooth_k=False, is_causal=True)
    reference = lambda q, k, v: attention(q, k, v, is_causal=True)


build, problem, load, inputs, outputs, run, reference = subject(globals())
