"""Honest kernels and cheats with several streams, and what the worker's audit of streams says of each on a GPU.

``python gpu_streams.py FOLDER COUNT=NAME,NAME...`` forks so many processes. Each waits for FOLDER/warm, FOLDER/go and a lock, so that
all start at once and measure one after the other. They write a line of JSON for each name to FOLDER.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stream_kernels import CHEATS, HONEST

ROOT = Path(__file__).parents[2]
SIZE = 1 << 23
"""Numbers of ``x``, a matrix: 20 µs for a kernel that doubles them."""
CHEAT_HOLD_MS = 20.0
"""A block of a cheat is held for so long that its other streams are far ahead, as it wishes."""


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
            ms = launcher.launches * statistics.median(map(launcher.milliseconds, block.marks))
            began = time.perf_counter()
            observed = unjoined.observe(self.context.driver, launcher.launch, launcher.again)
            seconds = time.perf_counter() - began
            mhz = self.context.driver.megahertz(block.before, block.after)
            return {
                "found": unjoined.describe(observed, ms, mhz),
                "half": unjoined.describe(observed, ms / 2, mhz),
                "ms": ms,
                "mhz": mhz,
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


def main(folder: Path, groups: list[str]) -> None:
    """Import once, fork, and wait for the processes. A group is ``COUNT=NAME,NAME...``."""
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx
    import triton  # noqa: F401

    assert not torch.cuda.is_initialized()
    (folder / "imported").touch()
    sys.stderr.write(f"imported after {time.perf_counter():.1f} s\n")
    for group in groups:
        count, _, names = group.partition("=")
        for _ in range(int(count)):
            if not os.fork():
                _be_process(folder, names.split(","))
                os._exit(0)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _be_process(folder: Path, names: list[str]) -> None:
    import torch

    _wait(folder / "warm")
    machine, absent = Machine(), {}
    for name in names:
        try:
            if name not in CHEATS:
                machine.warm(name)
        except Exception as error:  # noqa: BLE001 - a package that is not there
            absent[name] = {"absent": f"{type(error).__name__}: {error}"[:300]}
    (folder / f"ready-{os.getpid()}").touch()
    _wait(folder / "go")
    with (folder / "lock").open("w") as lock, (folder / f"{os.getpid()}.json").open("w", encoding="utf-8") as file:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in names:
            try:
                found = absent[name] if name in absent else machine.look(name, batched=False if name in CHEATS else None)
            except Exception as error:  # noqa: BLE001 - what a graph refuses, or a mistake
                found = {"error": f"{type(error).__name__}: {error}"[:300]}
            torch.cuda.synchronize()
            file.write(json.dumps({"name": name, **found}) + "\n")
            file.flush()
    (folder / f"done-{os.getpid()}").touch()


def _wait(file: Path) -> None:
    while not file.exists():
        time.sleep(0.005)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(Path(sys.argv[1]), sys.argv[2:])
