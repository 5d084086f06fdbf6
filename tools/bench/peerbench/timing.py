"""Time contenders on a GPU: one process, the same tensors, random order, cold L2, settled clocks.

A round times every contender once. Each launch follows a flush of the L2, between two readings of all SM clocks in the stream
(clock64 against globaltimer). Batches of rounds start behind a pause of the stream, so that no launch waits for the host.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from flashcore_ci.worker.driver import Driver
from peerbench import contenders, order
from peerbench.contenders import Contender
from peerbench.rows import CALLS, PEERS, Row
from peerbench.samples import Measured, Series

FLUSH_BYTES = 256 << 20  # several times the L2
BATCH_MS = 60.0
PAUSE_CYCLES = 2_000_000  # about a millisecond for the host to get ahead
TOLERANCE = {"fp16": 2e-2, "bf16": 1e-1}  # between contenders on normal inputs: a kernel with wrong results is not timed
COMPARED_WHOLE = 16384  # tokens. Of longer outputs only one row per head is compared, because memory is short


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Seconds until the clock has settled, seconds of samples, and the fewest and most rounds of them."""

    settle: float
    measure: float
    rounds: tuple[int, int] = (8, 150)


def compare(row: Row, libraries: Mapping[str, Path], driver: Driver, protocol: Protocol, rng: random.Random) -> Measured:
    """Measure one row."""
    part = slice(None) if row.suite or row.s <= COMPARED_WHOLE else slice(-1, None)
    runs, missing = usable(contenders.make(row, libraries), row.dtype, lambda output: output[:, part])
    series = measure(runs, driver, protocol, rng) if runs else {}
    if row.suite == "latency":
        series = {name: whole.divided(CALLS) for name, whole in series.items()}
    del runs
    torch.cuda.empty_cache()
    return Measured(row=row, series=series, missing=missing)


def usable(runs: Mapping[str, Contender], dtype: str, part: Callable[[Any], Any]) -> tuple[dict[str, Contender], dict[str, str]]:
    """Return the contenders that run and agree on ``part`` of the output, and why others do not."""
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, run in runs.items():
        if name == "fa3" and importlib.util.find_spec(contenders.FA3) is None:
            missing[name] = "not installed"
            continue
        try:
            outputs[name] = part(run()).float()
            torch.cuda.synchronize()
        except (RuntimeError, ValueError, ImportError) as error:
            missing[name] = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
    for name, output in outputs.items():
        others = [outputs[peer] for peer in outputs if peer in PEERS and peer != name]  # never another FlashCore
        worst = min((float((output - other).abs().max()) for other in others), default=0.0)
        if not worst <= TOLERANCE[dtype]:
            missing[name] = f"its output differs from every other by {worst:.1e} or more"
    return {name: run for name, run in runs.items() if name not in missing}, missing


def measure(runs: Mapping[str, Contender], driver: Driver, protocol: Protocol, rng: random.Random) -> dict[str, Series]:
    """Sample every contender equally often."""
    fewest, most = protocol.rounds
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    rounds = order.rounds(list(runs), rng)
    batches: list[Any] = []
    began, per_batch, settled, counted = time.monotonic(), 1, False, 0
    while True:
        batch_began = time.monotonic()
        batch = _submit(runs, driver, flush, itertools.islice(rounds, per_batch))
        torch.cuda.synchronize()
        now = time.monotonic()
        if settled:
            batches += batch  # read at the end, so that the GPU does not rest in between
            counted += per_batch
        per_batch = max(1, min(20, round(per_batch * BATCH_MS / 1e3 / max(now - batch_began, 1e-6))))
        if settled and counted >= fewest and (now - began > protocol.settle + protocol.measure or counted >= most):
            break
        settled = settled or now - began > protocol.settle
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for name, sample in _read(batches):
        samples[name].append(sample)
    return {
        name: Series(ms=tuple(round(ms, 5) for ms, _ in pairs), mhz=tuple(round(mhz, 1) for _, mhz in pairs))
        for name, pairs in samples.items()
    }


def _submit(runs: Mapping[str, Contender], driver: Driver, flush: Any, rounds: Iterable[list[str]]) -> list[Any]:
    torch.cuda._sleep(PAUSE_CYCLES)  # noqa: SLF001 - as PyTorch's own benchmarks do
    batch: list[Any] = []
    for name in itertools.chain.from_iterable(rounds):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        before = driver.tick()
        start.record()
        runs[name]()
        stop.record()
        batch.append((name, start, stop, before, driver.tick()))
    return batch


def _read(batch: list[Any]) -> list[tuple[str, tuple[float, float]]]:
    """Return name, milliseconds and MHz of each launch. MHz is the median over SMs of clocks by nanoseconds."""
    before, after = (torch.stack([entry[which] for entry in batch]) for which in (3, 4))
    cycles, nanoseconds = (after - before).double().unbind(2)
    valid = (before[..., 1] > 0) & (after[..., 1] > 0) & (nanoseconds > 0)
    megahertz = torch.where(valid, cycles / nanoseconds.clamp(min=1), torch.nan).nanmedian(dim=1).values * 1e3
    return [
        (name, (start.elapsed_time(stop), mhz)) for (name, start, stop, *_), mhz in zip(batch, megahertz.tolist(), strict=True)
    ]


def versions() -> dict[str, str]:
    """Return the versions of torch, cuDNN and FlashAttention-3."""
    number = torch.backends.cudnn.version()
    cudnn = "none" if number is None else f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    found = {"torch": torch.__version__, "cuDNN": cudnn}
    for package in ("tokenspeed-fa3", "flash-attn-3", "flash_attn_3"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def device() -> tuple[str, int, str]:
    """Return name, multiprocessors and driver of the GPU."""
    properties = torch.cuda.get_device_properties(0)
    try:
        import pynvml  # noqa: PLC0415 - it may be absent

        pynvml.nvmlInit()
        driver = str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # noqa: BLE001 - the page shows the driver's version, the measurement does not need it
        driver = "unknown"
    return properties.name, properties.multi_processor_count, driver
