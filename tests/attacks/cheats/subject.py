"""Subject: ways to look fast without the work. Each computes out = 2 x, or seems to; ``cheats.toml`` has the gate for each.

Parameters of a workload: ``cheat`` (a key of RUNS), ``n`` (float32 elements).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FACTOR = 2.0

_kept: dict[tuple[str, int, int], Any] = {}


def build(root: Path) -> None:
    """No machine code of its own: the work is PyTorch's."""


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """One multiplication an element."""
    if params["cheat"] not in RUNS:
        raise ValueError(f"cheat: must be one of {', '.join(RUNS)}")
    return {"flops": float(params["n"]), "bytes": 8.0 * params["n"], "entries": []}


def load(library: Path) -> None:
    """Nothing to load."""


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Normal numbers."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    return {"x": torch.randn(int(params["n"]), device="cuda", generator=generator), "cheat": params["cheat"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The output, uninitialised."""
    import torch

    return {"out": torch.empty_like(inputs["x"])}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """One launch, of a sort."""
    RUNS[inputs["cheat"]](inputs["x"], outputs["out"])


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for."""
    return {"out": inputs["x"] * FACTOR}


def _honest(x: Any, out: Any) -> None:
    import torch

    torch.mul(x, FACTOR, out=out)


def _nothing(x: Any, out: Any) -> None:
    """No launch at all."""


def _replay(x: Any, out: Any) -> None:
    """The output of the first launch on this address, kept."""
    key = ("replay", x.data_ptr(), x.numel())
    if key not in _kept:
        _kept[key] = x * FACTOR
    out.copy_(_kept[key])


def _side_stream(x: Any, out: Any) -> None:
    """On a stream that nobody waits for."""
    import torch

    with torch.cuda.stream(torch.cuda.default_stream()):
        _honest(x, out)


def _forked_stream(x: Any, out: Any) -> None:
    """On a stream that waits for the launch's own, and that its own does not wait for. Slowly, so that it matters."""
    import torch

    with torch.cuda.stream(_fork()):
        for _ in range(10):
            _honest(x, out)


def _lingering(x: Any, out: Any) -> None:
    """Right, but some of what it does goes on when its stream is done."""
    import torch

    _honest(x, out)
    with torch.cuda.stream(_fork()):
        for _ in range(10):
            torch.mul(x, FACTOR)


def _fork() -> Any:
    import torch

    side = _kept.setdefault(("fork", 0, 0), torch.cuda.Stream())
    side.wait_stream(torch.cuda.current_stream())
    return side


def _first_call(x: Any, out: Any) -> None:
    """Right when an output is written for the first time, then nothing: results may lie in memory from before."""
    key = ("first", out.data_ptr(), out.numel())
    if key not in _kept:
        _kept[key] = True
        _honest(x, out)


def _half(x: Any, out: Any) -> None:
    """The first half of the output."""
    middle = x.numel() // 2
    _honest(x[:middle], out[:middle])


def _beside(x: Any, out: Any) -> None:
    """Right, and one element more than there is."""
    import torch

    _honest(x, out)
    behind = ctypes.c_uint64(out.data_ptr() + out.numel() * out.element_size())
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    ctypes.CDLL("libcuda.so.1").cuMemsetD32Async(behind, 0, ctypes.c_size_t(1), stream)


RUNS = {
    "honest": _honest,
    "nothing": _nothing,
    "replay": _replay,
    "side-stream": _side_stream,
    "forked-stream": _forked_stream,
    "lingering": _lingering,
    "first-call": _first_call,
    "half": _half,
    "beside": _beside,
}
