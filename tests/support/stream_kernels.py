"""Launches on several streams: honest ones, and cheats. Each gets a matrix of 32 MiB and one for its output."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

Run = Callable[[Any, Any], object]
REPEATS = 5
"""Kernels that double the matrix, of 20 µs each."""
_kept: dict[Any, Any] = {}


def double(x: Any, out: Any, times: int = REPEATS) -> None:
    import torch

    for _ in range(times):
        torch.mul(x, 2.0, out=out)


def side(number: int = 0, **options: Any) -> Any:
    import torch

    return _kept.setdefault(("side", number, *options.items()), torch.cuda.Stream(**options))


def fork(number: int = 0, **options: Any) -> Any:
    import torch

    side(number, **options).wait_stream(torch.cuda.current_stream())
    return torch.cuda.stream(side(number, **options))


def join(number: int = 0, **options: Any) -> None:
    import torch

    torch.cuda.current_stream().wait_stream(side(number, **options))


# ---- honest


def fifty_launches(x: Any, out: Any) -> None:
    for _ in range(50):
        double(x[:8], out[:8], 1)
    double(x, out, 1)


def parts_joined(x: Any, out: Any) -> None:
    for number, (given, written) in enumerate(zip(x.chunk(4), out.chunk(4), strict=True)):
        with fork(number):
            double(given, written)
    for number in range(4):
        join(number)


def products_joined(x: Any, out: Any) -> None:
    import torch

    if "weights" not in _kept:
        _kept["weights"] = torch.randn(x.shape[1], x.shape[1], device="cuda")
        torch.cuda.synchronize()
    for number, (given, written) in enumerate(zip(x.chunk(2), out.chunk(2), strict=True)):
        with fork(number):
            torch.mm(given, _kept["weights"], out=written)
    for number in range(2):
        join(number)


def graph_with_branches(x: Any, out: Any) -> None:
    import torch

    if torch.cuda.is_current_stream_capturing():
        return parts_joined(x, out)
    if ("graph", x.data_ptr(), out.data_ptr()) not in _kept:
        _kept["graph", x.data_ptr(), out.data_ptr()] = graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            parts_joined(x, out)
    _kept["graph", x.data_ptr(), out.data_ptr()].replay()
    return None


def reads_a_number(x: Any, out: Any) -> None:
    double(x, out, 2)
    _kept["number"] = float(out[0, 0])
    double(x, out, 2)


def collects_garbage(x: Any, out: Any) -> None:
    double(x, out)
    gc.collect(0)
    time.sleep(0.0003)
    double(x, out)


def compiled(x: Any, out: Any) -> None:
    import torch

    function = _kept.setdefault("compiled", torch.compile(lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]) * 2.0))
    out.copy_(function(x))


HONEST: dict[str, Run] = {
    function.__name__: function
    for function in (
        double,
        fifty_launches,
        parts_joined,
        products_joined,
        graph_with_branches,
        reads_a_number,
        collects_garbage,
        compiled,
    )
}

# ---- cheats


def aside(x: Any, out: Any) -> None:
    import torch

    with torch.cuda.stream(side()):
        double(x, out)


def tiny_kernels_aside(x: Any, out: Any) -> None:
    import torch

    with torch.cuda.stream(side()):
        double(x[:8], out[:8], 8)


def with_priority(x: Any, out: Any) -> None:
    with fork(0, priority=-1):
        double(x, out)


def on_the_default_stream(x: Any, out: Any) -> None:
    import torch

    with torch.cuda.stream(torch.cuda.default_stream()):
        double(x, out)


def forked(x: Any, out: Any) -> None:
    with fork():
        double(x, out)


def half(x: Any, out: Any) -> None:
    with fork():
        double(x, out)
    double(x, out, REPEATS - 2)


def lingering(x: Any, out: Any) -> None:
    double(x, out)
    with fork():
        double(x, out, 1)


def many_streams(x: Any, out: Any) -> None:
    for number in range(8):
        with fork(number):
            double(x, out, 1)
    join(0)


def early(x: Any, out: Any) -> None:
    import torch

    with torch.cuda.stream(side()):
        double(x, out)
    join()
    double(x, out)


def joined_by_the_next(x: Any, out: Any) -> None:
    join()
    with fork():
        double(x, out)


def graph_aside(x: Any, out: Any) -> None:
    import torch

    if ("graph", x.data_ptr(), out.data_ptr()) not in _kept:
        _kept["graph", x.data_ptr(), out.data_ptr()] = graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            parts_joined(x, out)
    with fork(9):
        _kept["graph", x.data_ptr(), out.data_ptr()].replay()


def copies_aside(x: Any, out: Any) -> None:
    import torch

    host = _kept.setdefault("host", torch.empty(x.shape, pin_memory=True))
    double(x, out)
    with fork():
        host.copy_(out, non_blocking=True)


def after_a_host_function(x: Any, out: Any) -> None:
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    with fork():
        stream = ctypes.c_void_p(side().cuda_stream)
        ctypes.CDLL("libcuda.so.1").cuLaunchHostFunc(stream, usleep, ctypes.c_void_p(1000))
        double(x, out)


def from_a_thread(x: Any, out: Any) -> None:
    import torch

    def work() -> None:
        with torch.cuda.stream(side()):
            double(x, out)

    threading.Thread(target=work).start()


def synchronizes_first(x: Any, out: Any) -> None:
    import torch

    torch.cuda.current_stream().synchronize()
    with fork():
        double(x, out, 20)


CHEATS: dict[str, Run] = {
    function.__name__: function
    for function in (
        aside,
        tiny_kernels_aside,
        with_priority,
        on_the_default_stream,
        forked,
        half,
        lingering,
        many_streams,
        early,
        joined_by_the_next,
        graph_aside,
        copies_aside,
        after_a_host_function,
        from_a_thread,
        synchronizes_first,
    )
}
