"""Times contenders on a GPU: one process, the same tensors, random order, cold L2, settled clocks.

A round times every contender once, each after a flush of the L2 and between two readings of all SM clocks in the stream
(clock64 against globaltimer), so that every sample knows the clock that it ran at. Rounds are submitted in batches, behind a
pause of the stream, so that no launch waits for the host; the rounds before the clock has settled are not kept.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flashcore
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from flashcore_ci.worker.driver import Driver
from peerbench import order
from peerbench.rows import PEERS, Row
from peerbench.samples import Measured, Series

FLUSH_BYTES = 256 << 20  # several times the L2
BATCH_MS = 60.0
PAUSE_CYCLES = 2_000_000  # about a millisecond in which the host gets ahead
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"fp16": 2e-2, "bf16": 1e-1}  # between two contenders on normal inputs: a wrong kernel is no contender
COMPARED_WHOLE = 16384  # tokens; of longer outputs only a row of each head, because the others need the memory
BACKENDS = {"fa2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
FA3 = "flash_attn_interface"

Contender = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How a row is timed: seconds until the clock has settled, then of samples; at least and at most so many rounds of them."""

    settle: float
    measure: float
    layout: str
    rounds: tuple[int, int] = (8, 150)


def contenders(row: Row, libraries: Mapping[str, Path], layout: str) -> dict[str, Contender]:
    """Everyone who may take part, on the same tensors; whether they can shows when they are called.

    ``layout`` says how the tensors lie in memory; each contender gets the view that it asks for, and nothing is copied.
    """
    dims = (row.b, row.s, row.h, row.d) if layout == "bshd" else (row.b, row.h, row.s, row.d)
    memory = [torch.randn(dims, device="cuda", dtype=DTYPES[row.dtype]) for _ in range(3)]
    q, k, v = memory if layout == "bshd" else (tensor.transpose(1, 2) for tensor in memory)
    out = torch.empty_like(memory[0])
    view = out if layout == "bshd" else out.transpose(1, 2)
    heads_first = [tensor.transpose(1, 2) for tensor in (q, k, v)]

    def ours(library: Path) -> Any:
        if len(libraries) > 1:
            flashcore.load(library)
        return flashcore.attention(q, k, v, causal=row.causal, layout="bshd", out=view)

    def backend(which: SDPBackend) -> Any:
        with sdpa_kernel(which):
            return torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=row.causal).transpose(1, 2)

    def fa3() -> Any:
        result = importlib.import_module(FA3).flash_attn_func(q, k, v, causal=row.causal)
        return result[0] if isinstance(result, tuple) else result

    if len(libraries) == 1:
        flashcore.load(next(iter(libraries.values())))
    return {
        **{name: functools.partial(ours, path) for name, path in libraries.items()},
        "fa3": fa3,
        **{name: functools.partial(backend, which) for name, which in BACKENDS.items()},
    }


def able(
    runs: Mapping[str, Contender], dtype: str, part: Callable[[Any], Any] = lambda output: output
) -> tuple[dict[str, Contender], dict[str, str]]:
    """Who runs and agrees with the others on ``part`` of the output, and why the rest does not."""
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, run in runs.items():
        if name == "fa3" and importlib.util.find_spec(FA3) is None:
            missing[name] = "not installed"
            continue
        try:
            outputs[name] = part(run()).float()
            torch.cuda.synchronize()
        except (RuntimeError, ValueError, ImportError) as error:
            missing[name] = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
    judges = [name for name in outputs if name in PEERS]  # never another of ours
    for name in list(outputs):
        others = [outputs[judge] for judge in judges if judge != name]
        worst = min((float((outputs[name] - other).abs().max()) for other in others), default=0.0)
        if not worst <= TOLERANCE[dtype]:
            missing[name] = f"its output differs from every other by {worst:.1e} or more"
    return {name: run for name, run in runs.items() if name not in missing}, missing


def measure(runs: Mapping[str, Contender], driver: Driver, protocol: Protocol, rng: random.Random) -> dict[str, Series]:
    """Samples of every contender, as many of each."""
    fewest, most = protocol.rounds
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    turns = order.rounds(list(runs), rng)
    batches: list[Any] = []
    began, per_batch, settled, counted = time.monotonic(), 1, False, 0
    while True:
        batch_began = time.monotonic()
        batch = _submit(runs, driver, flush, itertools.islice(turns, per_batch))
        torch.cuda.synchronize()
        now = time.monotonic()
        if settled:
            batches += batch  # read at the end: the GPU is not to rest in between
            counted += per_batch
        per_batch = max(1, min(20, round(per_batch * BATCH_MS / 1e3 / max(now - batch_began, 1e-6))))
        if settled and counted >= fewest and (now - began > protocol.settle + protocol.measure or counted >= most):
            break
        settled = settled or now - began > protocol.settle
    kept: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for name, sample in _read(batches):
        kept[name].append(sample)
    return {
        name: Series(ms=tuple(round(ms, 5) for ms, _ in samples), mhz=tuple(round(mhz, 1) for _, mhz in samples))
        for name, samples in kept.items()
    }


def _submit(runs: Mapping[str, Contender], driver: Driver, flush: Any, turns: Iterable[list[str]]) -> list[Any]:
    torch.cuda._sleep(PAUSE_CYCLES)  # noqa: SLF001 - as PyTorch's own benchmarks do
    batch: list[Any] = []
    for names in turns:
        for name in names:
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            before = driver.tick()
            start.record()
            runs[name]()
            stop.record()
            batch.append((name, start, stop, before, driver.tick()))
    return batch


def _read(batch: list[Any]) -> list[tuple[str, tuple[float, float]]]:
    """Names, milliseconds and MHz of a batch that is done: the median over SMs of clocks by nanoseconds."""
    before, after = (torch.stack([entry[which] for entry in batch]) for which in (3, 4))
    cycles, nanoseconds = (after - before).double().unbind(2)
    seen = (before[..., 1] > 0) & (after[..., 1] > 0) & (nanoseconds > 0)
    megahertz = torch.where(seen, cycles / nanoseconds.clamp(min=1), torch.nan).nanmedian(dim=1).values * 1e3
    return [
        (name, (start.elapsed_time(stop), mhz)) for (name, start, stop, *_), mhz in zip(batch, megahertz.tolist(), strict=True)
    ]


def compare(row: Row, libraries: Mapping[str, Path], driver: Driver, protocol: Protocol, rng: random.Random) -> Measured:
    """One row, measured."""
    short = row.s <= COMPARED_WHOLE
    runs, missing = able(
        contenders(row, libraries, protocol.layout), row.dtype, lambda output: output if short else output[:, -1:]
    )
    series = measure(runs, driver, protocol, rng) if runs else {}
    torch.cuda.empty_cache()
    return Measured(row=row, series=series, missing=missing)


def versions() -> dict[str, str]:
    """What took part, by name."""
    found = {"torch": torch.__version__, "cuDNN": ".".join(_cudnn(torch.backends.cudnn.version()))}
    for package in ("tokenspeed-fa3", "flash-attn-3", "flash_attn_3"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cudnn(number: int | None) -> list[str]:
    return ["none"] if number is None else [str(number // 10000), str(number // 100 % 100), str(number % 100)]


def device() -> tuple[str, int, str]:
    """Name, multiprocessors and driver of the GPU."""
    properties = torch.cuda.get_device_properties(0)
    try:
        import pynvml  # noqa: PLC0415 - it may be absent

        pynvml.nvmlInit()
        driver = str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # noqa: BLE001 - the driver's version is told, not needed
        driver = "unknown"
    return properties.name, properties.multi_processor_count, driver
