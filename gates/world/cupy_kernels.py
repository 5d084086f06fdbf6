"""Kernels of CuPy, which NVRTC compiles."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from world_common import F, pytorch, subject, use

if TYPE_CHECKING:  # the versions that evidence depends on
    import cupy
    import torch

LARGE = "f32 4096x4096"
SIZE = 4096 * 4096


def on_stream(*tensors):
    """Return the tensors as CuPy's arrays, and PyTorch's stream for `with`."""
    stream = use("cupy").cuda.ExternalStream(pytorch().cuda.current_stream().cuda_stream)
    return stream, *map(use("cupy").asarray, tensors)


class digamma:
    takes, gives, flops = {"x": LARGE}, LARGE, 50 * SIZE
    prepare = lambda x: {"x": x.abs() + 0.1}

    def run(x, out):
        stream, x, out = on_stream(x, out)
        with stream:
            use("cupyx.scipy.special").psi(x, out)

    reference = lambda x: x.digamma()


class median_filter:
    takes, gives, flops = {"x": LARGE}, LARGE, 20 * SIZE

    def run(x, out):
        stream, x, out = on_stream(x, out)
        with stream:
            use("cupyx.scipy.ndimage").median_filter(x, 3, output=out, mode="mirror")

    def reference(x):
        padded = F().pad(x[None], (1, 1, 1, 1), mode="reflect")[0]
        return padded.unfold(0, 3, 1).unfold(1, 3, 1).flatten(2).median(-1).values


class convolution:
    takes, gives, flops = {"x": LARGE, "w": "f32 3x3"}, LARGE, 18 * SIZE

    def run(x, w, out):
        stream, x, w, out = on_stream(x, w, out)
        with stream:
            use("cupyx.scipy.ndimage").convolve(x, w, output=out, mode="constant")

    reference = lambda x, w: F().conv2d(x[None, None], w.flip(0, 1)[None, None], padding=1)[0, 0]


build, problem, load, inputs, outputs, run, reference = subject(globals())
