"""Honest kernels and cheats with several streams, and what the worker's audit of streams says of each on a GPU.

``python gpu_streams.py FOLDER NAME...`` prints one JSON object. It waits for FOLDER/go, and for a lock, so that many processes can
start at once and measure one after the other.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]
Run = Callable[[Any, Any], object]
SIZE = 1 << 23
"""Numbers of ``x``, a matrix: 20 µs for a kernel that doubles them."""
REPEATS = 5
CHEAT_HOLD_MS = 20.0
"""A block of a cheat is held for so long that its other streams are far ahead, as it wishes."""
WORLD = {"fla_kernels": ("chunk-simple-gla", "chunk-gla", "gated-delta-rule"), "cupy_kernels": ("median-filter", "convolution")}
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
    if ("graph", x.data_ptr()) not in _kept:
        _kept["graph", x.data_ptr()] = graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            parts_joined(x, out)
    _kept["graph", x.data_ptr()].replay()
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

    if ("graph", x.data_ptr()) not in _kept:
        _kept["graph", x.data_ptr()] = graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            parts_joined(x, out)
    with fork(9):
        _kept["graph", x.data_ptr()].replay()


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


def subject_of(name: str) -> tuple[Any, dict[str, Any]]:
    """Return a subject and the params of its workload. ``MODULE:KERNEL`` is a kernel of gates/world."""
    if ":" in name:
        module, _, kernel = name.partition(":")
        sys.path.insert(0, str(ROOT / "gates/world"))
        return importlib.import_module(module), {"kernel": kernel}

    def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
        import torch

        generator = torch.Generator(device="cuda").manual_seed(seed)
        return {"x": torch.randn(2048, SIZE // 2048, device="cuda", generator=generator)}

    def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        return {"out": torch.empty_like(inputs["x"])}

    run = (HONEST | CHEATS)[name]
    return SimpleNamespace(inputs=inputs, outputs=outputs, run=lambda i, o: run(i["x"], o["out"])), {}


class Machine:
    """The worker's context on GPU 0."""

    def __init__(self) -> None:
        import torch

        from flashcore_ci.worker import launchers
        from flashcore_ci.worker.driver import Driver
        from flashcore_ci.worker.sensors import Sensors

        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        flush = torch.empty(launchers.FLUSH_TIMES_L2 * l2, dtype=torch.int8, device="cuda")
        self.context = launchers.TimingContext(driver=Driver(), sensors=Sensors(""), flush=flush)
        self.stream = torch.cuda.Stream()

    def warm(self, name: str) -> None:
        """Launch a few times, as compilers need it."""
        import torch

        subject, params = subject_of(name)
        with torch.cuda.stream(self.stream):
            inputs = subject.inputs(params, 0)
            for _ in range(3):
                subject.run(inputs, subject.outputs(inputs))
        torch.cuda.synchronize()

    def look(self, name: str, *, batched: bool | None = None) -> dict[str, Any]:
        """Time one block, and audit the streams, as the worker does."""
        import torch

        from flashcore_ci.worker import launchers, timing, unjoined
        from flashcore_ci.worker.buffers import BufferPool
        from flashcore_ci.worker.job import Work

        subject, params = subject_of(name)
        with torch.cuda.stream(self.stream):
            pool = BufferPool(subject, Work(id=name, subject=name, params=params, seed=0))
            pool.grow(launchers.SINGLE_SETS)
            launcher, cost = timing._choose_launcher(self.context, pool, batched)
            count = timing._launches_per_block(cost)
            hold = CHEAT_HOLD_MS if name in CHEATS else max(0.0, cost.host - cost.device) * count
            block = timing._submit_block(self.context, launcher, count, hold)
            block.end.synchronize()
            ms = statistics.median(start.elapsed_time(stop) for start, stop in block.events)
            began = time.perf_counter()
            observed = unjoined.observe(self.context.driver, launcher.launch, launcher.again)
            seconds = time.perf_counter() - began
            return {
                "found": unjoined.describe(observed, ms),
                "half": unjoined.describe(observed, ms / 2),
                "ms": ms,
                "launches": launcher.launches,
                "host": cost.host,
                "seconds": round(seconds, 4),
                "series": [
                    {
                        kind: [
                            [round(v, 4) if isinstance(v, float) else v for v in asdict(one).values()]
                            for one in getattr(series, kind)
                        ]
                        for kind in ("tries", "without")
                    }
                    for series in observed
                ],
            }


def main(folder: Path, names: list[str]) -> None:
    """Get ready, wait for the others, and look at each."""
    import torch

    (folder / f"imported-{time.time_ns()}").touch()
    _wait(folder / "warm")
    machine, found = Machine(), {}
    for name in names:
        try:
            if name not in CHEATS:
                machine.warm(name)
        except Exception as error:  # noqa: BLE001 - a package that is not there
            found[name] = {"absent": f"{type(error).__name__}: {error}"[:300]}
    (folder / f"ready-{time.time_ns()}").touch()
    _wait(folder / "go")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in names:
            if name in found:
                continue
            try:
                found[name] = machine.look(name, batched=False if name in CHEATS else None)
            except Exception as error:  # noqa: BLE001 - what a graph refuses, or a mistake
                found[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
            torch.cuda.synchronize()
    sys.stdout.write(json.dumps(found) + "\n")


def _wait(file: Path) -> None:
    while not file.exists():
        time.sleep(0.005)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(Path(sys.argv[1]), sys.argv[2:])
