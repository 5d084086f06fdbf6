"""Kernels of FlashAttention 3 (CUDA C++)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import attention, subject, use, widen

if TYPE_CHECKING:  # the versions that evidence depends on
    import flash_attn_interface
    import torch

HEADS = "f16 2x1024x8x128"
WORK = 4 * 2 * 8 * 1024 * 1024 * 128


class forward:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS}, HEADS, WORK
    run = lambda q, k, v: use("flash_attn_interface").flash_attn_func(q, k, v)
    reference = attention


class forward_fp8:
    shape = "f8 2x1024x8x128"
    takes, gives, flops = {"q": shape, "k": shape, "v": shape}, "bf16 2x1024x8x128", WORK
    run = lambda q, k, v: use("flash_attn_interface").flash_attn_func(q, k, v)
    reference = lambda q, k, v: attention(*(widen(tensor, "bfloat16") for tensor in (q, k, v)))


class forward_varlen:
    packed = "f16 2048x8x128"
    takes, gives, flops = {"q": packed, "k": packed, "v": packed, "starts": "i32<1 4"}, packed, WORK // 2
    prepare = lambda starts, **_: {"starts": starts.new_tensor([0, 300, 1000, 2048])}

    def run(q, k, v, starts):
        from flash_attn_interface import flash_attn_varlen_func

        return flash_attn_varlen_func(q, k, v, starts, starts, 1048, 1048, causal=True)

    def reference(q, k, v, starts):
        import torch

        rows = ([tensor[a:b][None] for tensor in (q, k, v)] for a, b in ((0, 300), (300, 1000), (1000, 2048)))
        return torch.cat([attention(*row, is_causal=True)[0] for row in rows])


class decode:
    takes = {"q": "f16 8x1x16x128", "k": "f16 8x4096x4x128", "v": "f16 8x4096x4x128", "lengths": "i32<1 8"}
    gives, flops = "f16 8x1x16x128", 4 * 8 * 16 * 4096 * 128
    prepare = lambda lengths, **_: {"lengths": lengths + 4096}
    run = lambda q, k, v, lengths: use("flash_attn_interface").flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths)
    reference = lambda q, k, v, lengths: attention(q, k, v)


build, problem, load, inputs, outputs, run, reference = subject(globals())
