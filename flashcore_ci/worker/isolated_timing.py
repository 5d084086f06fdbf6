"""Time an untrusted candidate by the supervisor's clock, on inputs that it has not seen.

- A burst is N or 2N launches, each on its own set of buffers with new values, from seeds that only this process knows.
- The clock starts when the values have arrived, and stops when the outputs of a random launch were copied. Work after the answer or on
  another stream is inside. Work before the command would make the delivery longer, which has a clock too.
- Now and then a burst is repeated on the same values but a few, at a random place. Kept outputs are wrong then.
- Sets that were not to be launched must still hold poison. One random launch is compared with the reference.
- The slope from N to 2N is the time of a launch. Pairs are added until they settle and the clocks agree, up to 5 s.

docs/trust.md says what each of these is for.
"""

from __future__ import annotations

import gc
import itertools
import math
import random
import secrets
import statistics
import time
from collections.abc import Mapping
from typing import Any

from flashcore_ci.model import isolation
from flashcore_ci.model.codes import Code
from flashcore_ci.model.timing_protocol import COMPARED, MAX_SECONDS, SHORT_MS
from flashcore_ci.worker import clocks, steady_state
from flashcore_ci.worker.audits import OutputChangedError
from flashcore_ci.worker.clocks import Burst, Pair
from flashcore_ci.worker.isolated_bursts import MAX_BYTES, MEMORY_SHARE, Bursts, InputsAlikeError
from flashcore_ci.worker.isolated_subject import IsolatedSubject, reap
from flashcore_ci.worker.job import Work, missing
from flashcore_ci.worker.launchers import TimingContext
from flashcore_ci.worker.sensors import SensorReading, summarize
from flashcore_ci.worker.steady_state import Block
from flashcore_ci.worker.supervisor import Candidate
from flashcore_ci.worker.unjoined import NotSeenError

BURST_MS = 5.0
WINDOW_PAIRS = 5
MAX_DRIFT_PERCENT = 1.0
MIN_ALONE = 3
ONE_IN = 4
TRIALS = 2
STAGES = ("setup", "idle", "load", "choose", "pairs")
"""What ``measure`` does, with its seconds in the result."""


def measure(
    context: TimingContext, subject: IsolatedSubject, work: Work, *, hint: Mapping[str, Any], limit: float | None
) -> dict[str, Any]:
    """Return the outcome of one workload, in a new process of the candidate. ``hint``: what an earlier one chose."""
    import torch

    torch.backends.cuda.enable_cudnn_sdp(enabled=False)  # it compiles for seconds, in every process
    at = [time.perf_counter()]
    candidate = subject.fresh()
    if subject.isolation is not None:
        subject.isolation["clock"] = isolation.CLOCK
    if MEMORY_SHARE * torch.cuda.mem_get_info()[0] < MAX_BYTES:
        reap()  # the memory of the candidate before is needed
    bursts = Bursts(context, subject, work, limit, hint.get("sets"))
    gc.freeze()
    gc.disable()  # a collection in a burst would be noise
    try:
        candidate.share(bursts.memory, bursts.layout, bursts.sizes[-1])
        bursts.fill()
        candidate.finish()
        reap()  # the candidate before this one was killed, and must be gone before anything is measured
        at.append(time.perf_counter())
        idle = bursts.idle(candidate)
        at.append(time.perf_counter())
        candidate.load()
        at.append(time.perf_counter())
        sets, graph = _choose(bursts, candidate, hint.get("batched"))
        at.append(time.perf_counter())
        record = _measure_pairs(context, bursts, candidate, sets, graph=graph, idle=idle[sets])
        at.append(time.perf_counter())
        stages = zip(STAGES, itertools.pairwise(at), strict=True)
        return record | {"stages": {name: round(end - begin, 3) for name, (begin, end) in stages}}
    except OutputChangedError as error:
        return missing(Code.OUTPUT_CHANGED, str(error))
    except NotSeenError as error:
        return missing(Code.UNSETTLED, str(error))
    except InputsAlikeError as error:
        return missing(Code.INPUTS_ALIKE, str(error))
    finally:
        gc.enable()
        subject.close()
        bursts.close()


def _choose(bursts: Bursts, candidate: Candidate, batched: bool | None) -> tuple[int, bool]:
    """Choose the number of sets, and whether launches are in a CUDA graph."""
    few = sets = bursts.sizes[0]
    graph, is_open = bool(batched), len(bursts.sizes) > 1 or batched is None
    if not is_open:
        bursts.run(candidate, few, 1)
    else:
        _audited(bursts, candidate, few, few)
        trial = [
            Pair(short=_audited(bursts, candidate, few, 1), long=_audited(bursts, candidate, few, few)) for _ in range(TRIALS)
        ]
        cost = max(1e-3, statistics.median(pair.outside for pair in trial))
        sets = next((count for count in bursts.sizes if count / 2 * cost >= BURST_MS), bursts.sizes[-1])
        graph = cost < SHORT_MS if batched is None else batched
    if graph:
        for launches in (sets // 2, sets):
            candidate.ask("capture", launches=launches)
    return sets, graph


def _audited(bursts: Bursts, candidate: Candidate, sets: int, launches: int) -> Burst:
    """Return a burst whose outputs are right. Else wrong ones, made fast, would choose a CUDA graph for all processes."""
    burst = bursts.run(candidate, sets, launches)
    bursts.audit()
    return burst


def _measure_pairs(
    context: TimingContext, bursts: Bursts, candidate: Candidate, sets: int, *, graph: bool, idle: Burst
) -> dict[str, Any]:
    pairs: list[Pair] = []
    blocks: list[Block] = []
    readings: list[SensorReading] = []
    alone: list[float] = []
    began = time.perf_counter()
    bursts.run(candidate, sets, sets, graph=graph)
    while not blocks or blocks[-1].at < MAX_SECONDS:
        if _is_settled(blocks) and (clocks.is_hopeless(pairs) or not clocks.disagreement(_recent(pairs), alone, idle)):
            break
        bursts.mhz.clear()
        done = {}
        for launches in random.sample((sets // 2, sets), 2):
            done[launches] = bursts.run(candidate, sets, launches, graph=graph)
            bursts.audit()
        pairs.append(Pair(short=done[sets // 2], long=done[sets]))
        reading = context.sensors.read()
        readings.extend(() if reading is None else (reading,))
        throttled = reading is not None and reading.throttled
        at, mhz = time.perf_counter() - began, statistics.fmean(bursts.mhz)
        blocks.append(Block(at=at, ms=max(1e-6, pairs[-1].outside), mhz=mhz, throttled=throttled))
        if len(pairs) == 1 or not secrets.randbelow(ONE_IN):
            bursts.trap(candidate, sets, sets // 2, graph=graph)  # right after a burst on these values, when outputs can be kept
        if len(pairs) <= MIN_ALONE or not secrets.randbelow(ONE_IN):
            alone.append(bursts.run(candidate, 1, 1).outside)  # its delivery is not compared, so one set is enough
    bursts.watch(candidate, sets, sets // 2 if graph else 1, graph=graph)
    bursts.check_red_zones()
    recent = _recent(pairs)
    inside = statistics.median(pair.inside for pair in recent)
    shared = statistics.median(pair.shared for pair in recent)
    record = _record(blocks, sets, graph=graph, more=clocks.unexplained(recent, idle)) | summarize(readings)
    parts = {"inside": inside, "shared": shared, "alone": statistics.median(alone), "idle": idle.outside}
    record["clocks"] = {f"{name}_ms": round(value, 6) for name, value in parts.items()}
    record |= {} if _is_settled(blocks) else missing(Code.UNSETTLED, f"cycles still drift after {MAX_SECONDS:.0f} s")
    wrong = clocks.disagreement(recent, alone, idle)
    return record | missing(Code.CLOCKS_DISAGREE, wrong) if wrong else record


def _recent(pairs: list[Pair]) -> list[Pair]:
    """Return the last half of the pairs, and at least a window: more pairs are more precise."""
    return pairs[-max(WINDOW_PAIRS, len(pairs) // 2) :]


def _is_settled(blocks: list[Block]) -> bool:
    """Tell whether the halves of the window differ by less than 1 %, or by less than their own noise."""
    recent = [block for block in blocks[-WINDOW_PAIRS:] if not block.throttled]
    if len(recent) < WINDOW_PAIRS or blocks[-1].at < COMPARED.lead + COMPARED.window:
        return False
    noise = steady_state.relative_std([block.megacycles for block in recent]) * math.sqrt(4 / WINDOW_PAIRS)
    return abs(steady_state.relative_drift(recent)) < max(MAX_DRIFT_PERCENT, noise)


def _record(blocks: list[Block], sets: int, *, graph: bool, more: float) -> dict[str, Any]:
    kept = blocks[-WINDOW_PAIRS:]
    ms, mhz = statistics.median(block.ms for block in kept) + more, statistics.median(block.mhz for block in kept)
    return {
        "ms": ms,
        "megacycles": statistics.median(block.megacycles for block in kept) + more * mhz / 1e3,
        "mhz": mhz,
        "std_percent": round(steady_state.relative_std([block.megacycles for block in kept]), 4),
        "kept": len(kept),
        "dropped": sum(block.throttled for block in blocks),
        "batched": graph,
        "launches_per_block": sets + sets // 2,
        "sets": sets,
        "blocks": [[round(block.at, 3), round(block.ms, 6), round(block.mhz, 1)] for block in blocks],
    }
