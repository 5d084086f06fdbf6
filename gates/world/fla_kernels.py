"""Kernels of flash-linear-attention (Triton)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import F, recur, subject, use

if TYPE_CHECKING:  # the versions that evidence depends on
    import fla
    import torch
    import triton

HEADS = "bf16 1x256x4x128"  # small: initcheck reports each element of A that chunk_gla reads unwritten
GATE = "bf16 1x256x4"
LINEAR = 256 * 4 * 128 * (4 * 128 + 4 * 64)  # chunks of 64: states and outputs, and products inside a chunk


class chunk_simple_gla:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS, "g": GATE}, HEADS, LINEAR
    prepare = lambda g, **_: {"g": F().logsigmoid(g)}
    run = lambda q, k, v, g: use("fla.ops.simple_gla").chunk_simple_gla(q, k, v, g)[0]
    reference = lambda q, k, v, g: recur(q, k, v, g[..., None])


class chunk_gla:
    takes, gives, flops = {"q": HEADS, "k": HEADS, "v": HEADS, "g": HEADS}, HEADS, LINEAR
    prepare = lambda g, **_: {"g": F().logsigmoid(g) / 16}
    run = lambda q, k, v, g: use("fla.ops.gla").chunk_gla(q, k, v, g)[0]
    reference = lambda q, k, v, g: recur(q, k, v, decay=g)


class gated_delta_rule:
    takes = {"q": HEADS, "k": HEADS, "v": HEADS, "g": GATE, "beta": GATE}
    gives, flops = HEADS, 2 * LINEAR
    prepare = lambda k, g, beta, **_: {"k": F().normalize(k, dim=-1), "g": F().logsigmoid(g), "beta": beta.sigmoid()}
    run = lambda q, k, v, g, beta: use("fla.ops.gated_delta_rule").chunk_gated_delta_rule(q, k, v, g, beta)[0]
    reference = lambda q, k, v, g, beta: recur(q, k, v, g[..., None], beta)


class hgrn:
    takes, gives, flops = {"x": "bf16 8x512x4096", "g": "bf16 8x512x4096"}, "bf16 8x512x4096", 3 * 8 * 512 * 4096
    prepare = lambda g, **_: {"g": F().logsigmoid(g)}
    run = lambda x, g: use("fla.ops.hgrn").fused_recurrent_hgrn(x, g)[0]

    def reference(x, g):
        ones = x.new_ones(*x.shape, 1)
        return recur(ones, ones, x[..., None], g[..., None])[..., 0]


class l2norm:
    takes, gives, flops = {"x": "bf16 65536x256"}, "bf16 65536x256", 3 * 65536 * 256
    run = lambda x: use("fla.modules.norm.l2norm").l2norm_fwd(x)[0]
    reference = lambda x: F().normalize(x, dim=-1)


class token_shift:
    takes, gives, flops = {"x": "bf16 4x2048x2048"}, "bf16 4x2048x2048", 4 * 2048 * 2048
    run = lambda x: use("fla.modules.token_shift").token_shift_fwd(x)[0]
    reference = lambda x: F().pad(x, (0, 0, 1, -1)) - x


class mean_pooling:
    takes, gives, flops = {"x": "bf16 4x4096x8x128"}, "bf16 4x64x8x128", 4 * 4096 * 8 * 128
    run = lambda x: use("fla.ops.utils.pooling").mean_pooling_fwd(x, 64)
    reference = lambda x: x.unflatten(1, (64, 64)).mean(2)


class global_cumsum:
    takes, gives, flops = {"x": "f32 8x2048x8x128"}, "f32 8x2048x8x128", 8 * 2048 * 8 * 128
    run = lambda x: use("fla.ops.utils.cumsum").chunk_global_cumsum(x)
    reference = lambda x: x.cumsum(1)


build, problem, load, inputs, outputs, run, reference = subject(globals())
