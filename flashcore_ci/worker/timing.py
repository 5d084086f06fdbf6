"""Time every workload in one fresh process, until its GPU cycles settle.

- A launch finds a cold L2, poisoned outputs, and other values and addresses than the launch before.
- A block is 3 to 100 launches, about 15 ms, between two readings of every SM's clock.
- The next block is submitted before the last one is read, and a slow host holds the stream first. So the GPU never waits.
- One random launch per block must repeat the first output of its buffers.

The reasons are in docs/protocol.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.model.timing_protocol import BLOCK_MS, COMPARED, MAX_SECONDS, SHORT_MS, SPARE_PROCESSES, TIMED, Settling
from flashcore_ci.worker import ahead, guard, isolated_timing, launchers, steady_state, together
from flashcore_ci.worker.audits import OutputChangedError, UnlikeGraphsError, audit
from flashcore_ci.worker.buffers import BufferPool, BufferSet
from flashcore_ci.worker.candidate import CUDA
from flashcore_ci.worker.compiled import Observer
from flashcore_ci.worker.driver import Driver, start_torch
from flashcore_ci.worker.group import RankSubject
from flashcore_ci.worker.isolated_subject import IsolatedSubject
from flashcore_ci.worker.job import Job, Result, Work, missing
from flashcore_ci.worker.launchers import GraphLaunch, LaunchCost, Launcher, Marks, SingleLaunch, TimingContext
from flashcore_ci.worker.sensors import SensorReading, Sensors, summarize
from flashcore_ci.worker.steady_state import Block, SteadyState
from flashcore_ci.worker.subject_file import Subjects
from flashcore_ci.worker.unjoined import NotSeenError

BLOCK_LAUNCHES = (3, 100)
SPARE_MEMORY = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingBlock:
    """A submitted block, not yet read."""

    before: Any
    after: Any
    marks: list[Marks]
    audited: BufferSet
    differs: Any
    end: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All blocks and readings, the last state and audited buffers."""

    blocks: list[Block]
    readings: list[SensorReading]
    state: SteadyState
    audited: BufferSet


def run(job: Job, result: Result) -> bool:
    """Write each sample with its blocks. ``options["batched"]`` forces graphs or none. ``alone``: no other side is timed."""
    observer = Observer() if job.options.get("caches") else None  # before a subject imports a framework
    subjects, batched, limits = Subjects(job), job.options.get("batched", {}), job.options.get("limits", {})
    is_early = ahead.begin(job)
    subjects.prepare(SPARE_PROCESSES, fresh=True, warm=CUDA if is_early else "")  # all processes import torch at once
    import torch

    contexts: list[TimingContext] = []

    def start_cuda() -> None:
        subjects.warm()
        if not contexts:
            contexts.append(_make_context(job))
        subjects.warm(wait=True)

    if is_early:  # not before: correctness makes its contexts while all import torch
        with contextlib.suppress(RuntimeError):  # it is raised again after the signal
            start_cuda()
        ahead.end(job)
    subjects.preload()  # before the start signal, while another process measures
    guard.begin(job, result, subjects.warm)
    start_cuda()
    ahead.wait_until_alone(job)
    (context,), hints = contexts, ahead.hints(job)
    works = list(job.workloads)
    random.Random(job.options["order"]).shuffle(works)  # noqa: S311 - an order, not a secret
    stream = torch.cuda.Stream()
    with_reference = random.choice(works) if works else None  # noqa: S311 - the subject must not be able to predict it

    def measure(work: Work) -> dict[str, Any]:
        if observer is None:
            return measure_alone(work)
        observer.forget()
        return measure_alone(work) | {"choices": observer.choices()}

    def measure_alone(work: Work) -> dict[str, Any]:
        with torch.cuda.stream(stream):
            subject, by_reference = subjects[work.subject], work is with_reference
            if isinstance(subject, RankSubject):
                return _measure_group(context, subject, work)
            if isinstance(subject, IsolatedSubject):
                hint = {"batched": batched.get(work.id)} if work.id in batched else hints.get(work.id, {})
                return isolated_timing.measure(context, subject, work, hint=hint, limit=limits.get(work.id))
            chosen = batched.get(work.id, hints.get(work.id, {}).get("batched"))
            return _measure(context, subject, work, batched=chosen, by_reference=by_reference)

    completed = guard.run_each(dataclasses.replace(job, workloads=tuple(works)), result, measure, subjects, spare=SPARE_MEMORY)
    if completed and "rank" not in job.options and not any(subject.candidate for subject in job.subjects):
        ahead.say_done(job, result)  # not of candidates or ranks, which end later
    return completed


def _make_context(job: Job) -> TimingContext:
    import torch

    start_torch()
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    flush = torch.empty(launchers.FLUSH_TIMES_L2 * l2, dtype=torch.int8, device="cuda")
    rule = TIMED if job.options.get("alone") else COMPARED
    return TimingContext(driver=Driver(), sensors=Sensors(job.options["uuid"]), flush=flush, rule=rule)


def _measure(context: TimingContext, subject: Any, work: Work, *, batched: bool | None, by_reference: bool) -> dict[str, Any]:
    pool = BufferPool(subject, work)
    pool.grow(launchers.SINGLE_SETS)
    launcher, cost = _choose_launcher(context, pool, batched)
    count = int(context.worst([_launches_per_block(cost)])[0])
    hold = max(0.0, cost.host - cost.device) * count
    try:
        measurement = _submit_until_settled(context, launcher, lambda: _submit_block(context, launcher, count, hold))
        record = _record(measurement, launcher, count)
        audit(pool, launcher, record["ms"], record["mhz"], measurement.audited, by_reference=by_reference)
    except OutputChangedError as error:
        return missing(Code.OUTPUT_CHANGED, str(error))
    except (UnlikeGraphsError, NotSeenError) as error:
        return missing(Code.UNSETTLED, str(error))
    return record | _why_unsettled(measurement, record["dropped"], context.rule)


def _measure_group(context: TimingContext, subject: RankSubject, work: Work) -> dict[str, Any]:
    """Time a group. A reference on each rank shows that the timed launches of all ranks worked."""
    shared = together.GroupContext(context, subject.group)
    outcome = _measure(shared, subject, work, batched=False, by_reference=True)
    return outcome if "missing" in outcome else outcome | together.time_parts(shared, subject, work, outcome["ms"])


def _choose_launcher(context: TimingContext, pool: BufferPool, batched: bool | None) -> tuple[Launcher, LaunchCost]:
    """Use CUDA graphs if ``batched``, or by default below 50 µs per launch."""
    single = SingleLaunch(context, pool)
    cost = launchers.measure_cost(single)
    if not (cost.timed < SHORT_MS if batched is None else batched):
        return single, cost
    pool.grow(launchers.graph_size(pool, context.flush.numel() // launchers.FLUSH_TIMES_L2))
    graph = GraphLaunch(context, pool, random.choice)
    return graph, launchers.measure_cost(graph)


def _launches_per_block(cost: LaunchCost) -> int:
    fewest, most = BLOCK_LAUNCHES
    return max(fewest, min(most, round(BLOCK_MS / max(cost.device, cost.host))))


def _submit_block(context: TimingContext, launcher: Launcher, count: int, hold: float) -> PendingBlock:
    """Submit ``count`` launches after ``hold`` ms, which keep the host ahead."""
    import torch

    drawn = int(context.worst([random.randrange(count)])[0])  # noqa: S311 - the subject must not be able to predict it
    if hold:
        torch.cuda._sleep(int(hold * launchers.HOLD_CYCLES_PER_MS))  # noqa: SLF001 - as PyTorch's own tests do
    before = context.driver.tick()
    marks = []
    for number in range(count):
        marks.append(launcher.launch())
        if number == drawn:
            audited, differs = launcher.last, launcher.last.differs()
    after = context.driver.tick()
    end = torch.cuda.Event()
    end.record()
    return PendingBlock(before=before, after=after, marks=marks, audited=audited, differs=differs, end=end)


def _submit_until_settled(context: TimingContext, launcher: Launcher, submit: Callable[[], PendingBlock]) -> Measurement:
    """Submit until the window settles. OutputChangedError if an output differs."""
    blocks: list[Block] = []
    readings: list[SensorReading] = []
    state = steady_state.assess(())
    began = time.perf_counter()
    submitted, may_end = [submit()], True
    while not state.settled and (not blocks or blocks[-1].at < MAX_SECONDS):
        done = submitted.pop() if submitted else submit()
        if may_end and steady_state.may_be_last(blocks, context.rule):
            may_end = False  # if it was not the last one, the GPU waits once, and not again
        else:
            submitted.append(submit())
        done.end.synchronize()
        reading = context.sensors.read()
        readings.extend(() if reading is None else (reading,))
        at, mhz = time.perf_counter() - began, context.driver.megahertz(done.before, done.after)
        throttled = reading is not None and reading.throttled
        times = [launcher.milliseconds(marks) for marks in done.marks]
        differs, at, lower, held, *times = context.worst([bool(done.differs), at, -mhz, throttled, *times])
        if differs:
            raise OutputChangedError("a timed launch gave another output than the first launch")
        blocks.append(Block(at=at, ms=statistics.median(times), mhz=-lower, throttled=bool(held)))
        state = steady_state.assess(blocks, context.rule)
    for block in submitted:
        block.end.synchronize()
    return Measurement(blocks=blocks, readings=readings, state=state, audited=done.audited)


def _record(measurement: Measurement, launcher: Launcher, count: int) -> dict[str, Any]:
    blocks, state = measurement.blocks, measurement.state
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
        "batched": isinstance(launcher, GraphLaunch),
        **({"graph_launches": launcher.launches} if isinstance(launcher, GraphLaunch) else {}),
        "launches_per_block": count * launcher.submitted,
        "blocks": [[round(block.at, 3), round(block.ms, 6), round(block.mhz, 1)] for block in blocks],
        **summarize(measurement.readings),
    }


def _why_unsettled(measurement: Measurement, dropped: int, rule: Settling) -> dict[str, Any]:
    state, count = measurement.state, len(measurement.blocks)
    if state.settled:
        return {}
    if 2 * dropped > count:
        return missing(Code.THROTTLED, f"heat or hardware throttled {dropped} of {count} blocks")
    drift = f"cycles still drift by {state.drift:+.2f} % in {rule.window} s, the clock by {state.clock_move:.0f} MHz"
    return missing(Code.UNSETTLED, f"after {MAX_SECONDS:.0f} s {drift}")
