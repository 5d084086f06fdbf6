"""Job ``timing``: one fresh process times all its workloads, in random order, each until it settles.

Each launch finds a cold L2 and poisoned outputs. Launches go in blocks, each between two readings of every SM's clock; the
next block is submitted before the last is read, so that the GPU never idles and its clock stays that of a loaded GPU. The
blocks of the last, settled second are the sample. A launch of every block, drawn at random, must have given the first one's
output, and a launch on other values at the same addresses theirs: a result that was kept is no result.
"""

from __future__ import annotations

import functools
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import guard, settle, tensors
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.job import Job, Result, Work, missing
from flashcore_ci.worker.sensors import Sensation, Sensors
from flashcore_ci.worker.subject_file import Subjects

BLOCK_SECONDS = 0.015
BLOCK_LAUNCHES = (3, 100)
WARM_UPS = 3
FLUSH_TIMES_L2 = 2


class OutputChangedError(Exception):
    """A timed launch gave another output than the first launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """A block under way: clock readings around it, an event pair a launch, whether the audited one went wrong, the event that ends it."""

    before: Any
    after: Any
    events: list[tuple[Any, Any]]
    wrong: Any
    end: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What timing needs of this process."""

    driver: Driver
    sensors: Sensors
    flush: Any


def run(job: Job, result: Result) -> bool:
    """One outcome a workload: the sample, and every block for whoever digs."""
    import torch

    guard.begin(job, result)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    bench = Bench(
        driver=Driver(),
        sensors=Sensors(job.options["uuid"]),
        flush=torch.empty(FLUSH_TIMES_L2 * l2, dtype=torch.int8, device="cuda"),
    )
    subjects = Subjects(job)
    works = list(job.workloads)
    random.Random(job.options["order"]).shuffle(works)  # noqa: S311 - an order, not a secret
    shuffled = Job(
        kind=job.kind,
        nonce=job.nonce,
        digest=job.digest,
        root=job.root,
        subjects=job.subjects,
        workloads=tuple(works),
        options=job.options,
    )
    return guard.each(shuffled, result, lambda work: _time(bench, subjects[work.subject], work))


def _time(bench: Bench, subject: Any, work: Work) -> dict[str, Any]:
    import torch

    inputs = subject.inputs(work.params, work.seed)
    outputs = subject.outputs(inputs)
    subject.run(inputs, outputs)
    torch.cuda.synchronize()
    first = {name: tensor.clone() for name, tensor in outputs.items()}
    launch = functools.partial(_launch, bench, subject, inputs, outputs)
    count = _block_size(launch)
    wrong = functools.partial(tensors.differ, first, outputs)
    try:
        blocks, sensations, state = _until_settled(bench, functools.partial(_submit, bench, launch, count, wrong))
    except OutputChangedError:
        return missing(Code.OUTPUT_CHANGED, "a timed launch gave another output than the first launch")
    if _replays(subject, work, inputs, outputs, launch):
        return missing(Code.OUTPUT_CHANGED, "on other values at the same addresses a launch gave what these values do not give")
    record = _record(blocks, sensations, state, count)
    if state.settled:
        return record
    dropped = sum(block.throttled for block in blocks)
    if 2 * dropped > len(blocks):
        return record | missing(Code.THROTTLED, f"{dropped} of {len(blocks)} blocks were throttled by heat or hardware")
    return record | missing(
        Code.UNSETTLED,
        f"after {settle.MAX_SECONDS:.0f} s block medians still slope {state.slope:+.2f} %/s, the clock moved {state.clock_move:.0f} MHz",
    )


def _replays(subject: Any, work: Work, inputs: Any, outputs: Any, launch: Callable[[], object]) -> bool:
    """Whether a timed launch on other values differs, in any bit, from a launch on these values elsewhere in memory."""
    fresh = subject.inputs(work.params, work.seed + 1)
    others = {name: fresh[name] if tensors.may_change(value, fresh[name]) else value for name, value in inputs.items()}
    expected = subject.outputs(others)
    tensors.poison(expected, 0)
    subject.run(others, expected)
    for name, value in others.items():
        if value is not inputs[name]:
            inputs[name].copy_(value)
    launch()
    return not tensors.same_bits(expected, outputs)


def _launch(bench: Bench, subject: Any, inputs: Any, outputs: Any) -> tuple[Any, Any]:
    """One launch, cold: outputs poisoned, L2 flushed, then the event pair."""
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    tensors.poison(outputs, 0)
    bench.driver.reset_persisting_lines()
    bench.flush.zero_()
    start.record()
    subject.run(inputs, outputs)
    stop.record()
    return start, stop


def _block_size(launch: Callable[[], tuple[Any, Any]]) -> int:
    """How many launches make a block of about 15 ms, flush and all."""
    import torch

    launch()
    torch.cuda.synchronize()
    events = [launch() for _ in range(WARM_UPS + 1)]
    torch.cuda.synchronize()
    seconds = float(events[0][0].elapsed_time(events[-1][0])) / WARM_UPS / 1e3
    fewest, most = BLOCK_LAUNCHES
    return max(fewest, min(most, round(BLOCK_SECONDS / seconds)))


def _submit(bench: Bench, launch: Callable[[], tuple[Any, Any]], count: int, wrong: Callable[[], Any]) -> Launches:
    import torch

    audited = random.randrange(count)  # noqa: S311 - nobody should know which
    before = bench.driver.tick()
    events = []
    for number in range(count):
        events.append(launch())
        if number == audited:
            differs = wrong()
    after = bench.driver.tick()
    end = torch.cuda.Event()
    end.record()
    return Launches(before=before, after=after, events=events, wrong=differs, end=end)


def _until_settled(bench: Bench, submit: Callable[[], Launches]) -> tuple[list[settle.Block], list[Sensation], settle.State]:
    """Blocks until the last second is settled, or the bound is reached. OutputChangedError when an audited one went wrong."""
    blocks: list[settle.Block] = []
    sensations: list[Sensation] = []
    state = settle.state(())
    began = time.perf_counter()
    ahead = submit()
    while not state.settled and (not blocks or blocks[-1].at < settle.MAX_SECONDS):
        done, ahead = ahead, submit()
        done.end.synchronize()
        if bool(done.wrong):
            raise OutputChangedError
        sensation = bench.sensors.read()
        sensations.extend(() if sensation is None else (sensation,))
        blocks.append(
            settle.Block(
                at=time.perf_counter() - began,
                ms=statistics.median(start.elapsed_time(stop) for start, stop in done.events),
                mhz=bench.driver.megahertz(done.before, done.after),
                throttled=sensation is not None and sensation.throttled,
            )
        )
        if blocks[-1].at >= settle.WINDOW_SECONDS:
            state = settle.state(blocks)
    ahead.end.synchronize()
    return blocks, sensations, state


def _record(blocks: list[settle.Block], sensations: list[Sensation], state: settle.State, count: int) -> dict[str, Any]:
    kept = state.blocks or tuple(blocks)
    return {
        "ms": statistics.median(block.ms for block in kept),
        "megacycles": statistics.median(block.megacycles for block in kept),
        "mhz": statistics.median(block.mhz for block in kept),
        "std_percent": round(settle.relative_std([block.megacycles for block in kept]), 4),
        "slope_percent_per_second": round(state.slope, 4),
        "clock_move_mhz": round(state.clock_move, 2),
        "kept": len(state.blocks),
        "dropped": sum(block.throttled for block in blocks),
        "launches_per_block": count,
        "blocks": [[round(block.at, 3), round(block.ms, 6), round(block.mhz, 1)] for block in blocks],
        **_sensed(sensations),
    }


def _sensed(sensations: list[Sensation]) -> dict[str, Any]:
    if not sensations:
        return {}
    reasons = Counter(bit for sensation in sensations for bit in range(64) if sensation.reasons >> bit & 1)
    return {
        "watts": round(statistics.median(sensation.watts for sensation in sensations), 1),
        "celsius": max(sensation.celsius for sensation in sensations),
        "nvml_mhz": statistics.median(sensation.mhz for sensation in sensations),
        "reasons": {f"{1 << bit:#x}": count for bit, count in sorted(reasons.items())},
    }
