"""Job ``timing``: one fresh process times all its workloads, in random order, each until it settles.

docs/measurement.md says why each of these things is done. A launch finds a cold L2, poisoned outputs, and other values at
other addresses than the launch before; kernels under 50 µs are batched in a CUDA graph. Launches go in blocks, each between two
readings of every SM's clock; the next block is submitted before the last is read, and where the host is slower than the
device the stream is held up ahead, so that no launch waits for the host and the clock stays that of a loaded GPU. A launch of
every block, drawn at random, must have given its set's first output; ``audits`` has what is asked when the clock has stopped.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.model.timing_protocol import BLOCK_MS, MAX_SECONDS, SHORT_MS, WINDOW_SECONDS
from flashcore_ci.worker import guard, launchers, steady_state
from flashcore_ci.worker.audits import OutputChangedError, audit
from flashcore_ci.worker.buffers import Set, Sets
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.job import Job, Result, Work, missing
from flashcore_ci.worker.launchers import Batch, Bench, Pace, Single, Way
from flashcore_ci.worker.sensors import Sensation, Sensors
from flashcore_ci.worker.subject_file import Subjects

BLOCK_LAUNCHES = (3, 100)
SPARE_MEMORY = 0.6
HELD_UP_CYCLES_PER_MS = 2_000_000  # at the highest clock of a Hopper; at a lower one the stream is held up longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """A block under way: clock readings around it, the event pairs, the set that was audited, whether it went wrong, the end."""

    before: Any
    after: Any
    events: list[tuple[Any, Any]]
    audited: Set
    wrong: Any
    end: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """All that was seen of one workload until it settled, and the set of the launch that was audited last."""

    blocks: list[steady_state.Block]
    sensations: list[Sensation]
    state: steady_state.State
    audited: Set


def run(job: Job, result: Result) -> bool:
    """One outcome a workload: the sample, and every block for whoever digs.

    ``options["batched"]`` may say of workloads whether they are batched, so that two binaries are timed in one way.
    """
    import torch

    guard.begin(job, result)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    flush = torch.empty(launchers.FLUSH_TIMES_L2 * l2, dtype=torch.int8, device="cuda")
    bench = Bench(driver=Driver(), sensors=Sensors(job.options["uuid"]), flush=flush)
    subjects, told = Subjects(job), job.options.get("batched", {})
    works = list(job.workloads)
    random.Random(job.options["order"]).shuffle(works)  # noqa: S311 - an order, not a secret
    stream, drawn = torch.cuda.Stream(), random.choice(works) if works else None  # noqa: S311 - nobody should know which

    def timed(work: Work) -> dict[str, Any]:
        with torch.cuda.stream(stream):
            return _time(bench, subjects[work.subject], work, batched=told.get(work.id), by_reference=work is drawn)

    return guard.each(dataclasses.replace(job, workloads=tuple(works)), result, timed, spare=SPARE_MEMORY)


def _time(bench: Bench, subject: Any, work: Work, *, batched: bool | None, by_reference: bool) -> dict[str, Any]:
    sets = Sets(subject, work)
    sets.grow(launchers.SINGLE_SETS)
    way, pace = _way(bench, sets, batched)
    per_block = _block_size(pace)
    held_up = max(0.0, pace.host - pace.device) * per_block
    try:
        timed = _until_settled(bench, lambda: _submit(bench, way, per_block, held_up))
        record = _record(timed, way, per_block)
        audit(sets, way, record["ms"], timed.audited, by_reference=by_reference)
    except OutputChangedError as error:
        return missing(Code.OUTPUT_CHANGED, str(error))
    if timed.state.settled:
        return record
    dropped = record["dropped"]
    if 2 * dropped > len(timed.blocks):
        return record | missing(Code.THROTTLED, f"{dropped} of {len(timed.blocks)} blocks were throttled by heat or hardware")
    return record | missing(
        Code.UNSETTLED,
        f"after {MAX_SECONDS:.0f} s cycles still drift by {timed.state.drift:+.2f} % in {WINDOW_SECONDS} s, "
        f"the clock by {timed.state.clock_move:.0f} MHz",
    )


def _way(bench: Bench, sets: Sets, batched: bool | None) -> tuple[Way, Pace]:
    """How to launch this workload, and how fast that goes: as told, else by how long a launch takes."""
    way = Single(bench, sets)
    pace = launchers.pace(way)
    if not (pace.timed < SHORT_MS if batched is None else batched):
        return way, pace
    sets.grow(launchers.batch_size(sets, bench.flush.numel() // launchers.FLUSH_TIMES_L2))
    batch = Batch(bench, sets, random.choice)
    return batch, launchers.pace(batch)


def _block_size(pace: Pace) -> int:
    """How many event pairs make a block of about 15 ms, flush and all."""
    fewest, most = BLOCK_LAUNCHES
    return max(fewest, min(most, round(BLOCK_MS / max(pace.device, pace.host))))


def _submit(bench: Bench, way: Way, count: int, held_up: float) -> Launches:
    """Submit a block, after ``held_up`` milliseconds in which the stream waits for the host."""
    import torch

    audited = random.randrange(count)  # noqa: S311 - nobody should know which
    if held_up:
        torch.cuda._sleep(int(held_up * HELD_UP_CYCLES_PER_MS))  # noqa: SLF001 - as PyTorch's own tests do
    before = bench.driver.tick()
    events = []
    for number in range(count):
        events.append(way.launch())
        if number == audited:
            chosen, differs = way.last, way.last.differs()
    after = bench.driver.tick()
    end = torch.cuda.Event()
    end.record()
    return Launches(before=before, after=after, events=events, audited=chosen, wrong=differs, end=end)


def _until_settled(bench: Bench, submit: Callable[[], Launches]) -> Timed:
    """Blocks until the window is settled, or the bound is reached. OutputChangedError when an audited launch went wrong."""
    blocks: list[steady_state.Block] = []
    sensations: list[Sensation] = []
    state = steady_state.state(())
    began = time.perf_counter()
    ahead = submit()
    while not state.settled and (not blocks or blocks[-1].at < MAX_SECONDS):
        done, ahead = ahead, submit()
        done.end.synchronize()
        if bool(done.wrong):
            raise OutputChangedError("a timed launch gave another output than the first launch")
        sensation = bench.sensors.read()
        sensations.extend(() if sensation is None else (sensation,))
        blocks.append(
            steady_state.Block(
                at=time.perf_counter() - began,
                ms=statistics.median(start.elapsed_time(stop) for start, stop in done.events),
                mhz=bench.driver.megahertz(done.before, done.after),
                throttled=sensation is not None and sensation.throttled,
            )
        )
        state = steady_state.state(blocks)
    ahead.end.synchronize()
    return Timed(blocks=blocks, sensations=sensations, state=state, audited=done.audited)


def _record(timed: Timed, way: Way, count: int) -> dict[str, Any]:
    blocks, state = [dataclasses.replace(block, ms=block.ms / way.launches) for block in timed.blocks], timed.state
    window = {block.at for block in state.blocks}
    kept = [block for block in blocks if block.at in window] or blocks
    return {
        "ms": statistics.median(block.ms for block in kept),
        "megacycles": statistics.median(block.megacycles for block in kept),
        "mhz": statistics.median(block.mhz for block in kept),
        "std_percent": round(steady_state.relative_std([block.megacycles for block in kept]), 4),
        "drift_percent": round(state.drift, 4),
        "clock_move_mhz": round(state.clock_move, 2),
        "kept": len(state.blocks),
        "dropped": sum(block.throttled for block in blocks),
        "batched": isinstance(way, Batch),
        "launches_per_block": count * way.launches,
        "blocks": [[round(block.at, 3), round(block.ms, 6), round(block.mhz, 1)] for block in blocks],
        **_sensed(timed.sensations),
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
