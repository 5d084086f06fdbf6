"""Kernels of FlashAttention 3 (CUDA C++)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import attention, pytorch, subject, use, widen

if TYPE_CHECKING:  # the versions that evidence depends on
    import flash_attn_interface
    import torch

HEADS = "f16 2x1024x8x128"
WORK = 4 * 2 * 8 * 1024 * 1024 * 128


def forward_into(out, q, k, v, **options):
    """Call the operator behind `flash_attn_func` and its relatives, which take no `out`."""
    use("flash_attn_interface").flash_attn_3_gpu.fwd(q, k, v, out=out, **options)


class forward:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, WORK
    run = lambda q, k, v, out: forward_into(out, q, k, v, num_splits=1)
    reference = attention


class forward_fp8:
    # small: initcheck reports each element of V that TMA wrote
    takes, gives, flops = dict.fromkeys("qkv", "f8 1x256x2x128"), "bf16 1x256x2x128", WORK // 128
    run = lambda q, k, v, out: forward_into(out, q, k, v, num_splits=1)
    reference = lambda q, k, v: attention(*(widen(tensor, "bfloat16") for tensor in (q, k, v)))


class forward_varlen:
    packed = "f16 2048x8x128"
    takes, gives, flops = {"q": packed, "k": packed, "v": packed, "at": "i32<1 4"}, packed, WORK // 2
    prepare = lambda at, **_: {"at": at.new_tensor([0, 300, 1000, 2048])}

    def run(q, k, v, at, out):
        lengths = {"cu_seqlens_q": at, "cu_seqlens_k": at, "max_seqlen_q": 1048, "max_seqlen_k": 1048}
        forward_into(out, q, k, v, **lengths, is_causal=True, num_splits=1)

    def reference(q, k, v, at):
        rows = ([tensor[a:b][None] for tensor in (q, k, v)] for a, b in ((0, 300), (300, 1000), (1000, 2048)))
        return pytorch().cat([attention(*row, is_causal=True)[0] for row in rows])


class decode:
    takes = {"q": "f16 4x1x16x128", "k": "f16 4x1024x4x128", "v": "f16 4x1024x4x128", "lengths": "i32<1 4"}
    gives, flops = "f16 4x1x16x128", 4 * 4 * 16 * 1024 * 128
    prepare = lambda lengths, **_: {"lengths": lengths + 1024}
    run = lambda q, k, v, lengths, out: forward_into(out, q, k, v, seqused_k=lengths)
    reference = lambda q, k, v, lengths: attention(q, k, v)


build, problem, load, inputs, outputs, run, reference = subject(globals())
