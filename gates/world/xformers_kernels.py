"""Kernels of xFormers (Triton). Its attention needs a build for PyTorch 2.10."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import F, subject, use

if TYPE_CHECKING:  # the versions that evidence depends on
    import torch
    import triton
    import xformers

WIDE = "bf16 4096x4096"
SIZE = 4096 * 4096


class rms_norm:
    takes, gives, flops = {"x": WIDE, "weight": "bf16 4096"}, WIDE, 4 * SIZE
    run = lambda x, weight: use("xformers.ops.rmsnorm").rms_norm(x, weight, 1e-6)
    reference = lambda x, weight: F().rms_norm(x, x.shape[-1:], weight, 1e-6)


class rms_norm_add:
    takes, gives, flops = {"x": WIDE, "y": WIDE, "weight": "bf16 4096"}, {"sum": WIDE, "normed": WIDE}, 5 * SIZE

    def run(x, y, weight):
        total = x.clone()  # it adds in place, as documented
        return total, use("xformers.ops.rmsnorm").rms_norm_add(total, y, weight, 1e-6)

    reference = lambda x, y, weight: (x + y, F().rms_norm(x + y, x.shape[-1:], weight, 1e-6))


class index_select_cat:
    takes, gives, flops = {"x": "f16 8192x4096", "index": "i64<8192 4096"}, f"f16 {SIZE}", SIZE
    prepare = lambda index, **_: {"index": index.argsort()}  # unique, as documented
    run = lambda x, index: use("xformers.ops.indexing").index_select_cat([x], [index])
    reference = lambda x, index: x[index].flatten()


class scaled_index_add:
    takes = {"x": "f16 128x256x1024", "source": "f16 64x256x1024", "scaling": "f16 1024", "index": "i64<1 64"}
    gives, flops = "f16 128x256x1024", 2 * SIZE
    prepare = lambda index, **_: {"index": index.new_ones(64).cumsum(0) * 2 - 1}  # unique, as documented
    run = lambda x, source, scaling, index: use("xformers.ops.indexing").scaled_index_add(x.clone(), index, source, scaling)
    reference = lambda x, source, scaling, index: x.index_add(0, index, scaling * source)


build, problem, load, inputs, outputs, run, reference = subject(globals())
