"""Measure how timings scatter without a change and with a planted slowdown.

The same binaries are timed in many fresh processes (A/A), and so are test builds with planted work. Resumable after each
process.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.process_runs import SAMPLE_KEYS, ProcessRun
from flashcore_ci.collect.session import Session
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.noise import PLANTED_PERCENT, Noise, Planted, RecordingSession, Series, WorkloadNoise
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.model.timing_protocol import PROTOCOL

EXTRA = "extra"
MIN_PROCESSES = 2  # for one round

Part = Literal["pilot", "same", "planted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Median ms, million cycles and SM clock (MHz) in one process."""

    ms: float
    megacycles: float
    mhz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that ran, with its samples by workload (and level, if planted)."""

    number: int
    part: Part
    samples: tuple[tuple[str, Sample], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The processes so far. ``key`` digests what must stay the same."""

    key: str
    sittings: tuple[RecordingSession, ...] = ()
    processes: tuple[Process, ...] = ()
    schema: Literal["calibration-v1"] = "calibration-v1"

    def processes_of(self, part: Part) -> tuple[Process, ...]:
        """Return the processes of one part, in order."""
        return tuple(process for process in self.processes if process.part == part)

    def with_process(self, part: Part, results: dict[str, WorkloadResult]) -> Ledger:
        """Return the ledger with one more process in the last session."""
        values = [(name, result.values) for name, result in sorted(results.items()) if result.missing is None]
        samples = tuple((name, Sample(**{key: float(of[key]) for key in SAMPLE_KEYS.values()})) for name, of in values)
        process = Process(number=len(self.processes), part=part, samples=samples)
        *earlier, current = self.sittings
        sittings = (*earlier, replace(current, processes=current.processes + 1))
        return replace(self, processes=(*self.processes, process), sittings=sittings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """How many A/A and planted processes the whole recording has."""

    same: int
    planted: int


def next_part(ledger: Ledger, targets: Targets) -> Part | None:
    """Return the part of the next process, or None at the end."""
    if targets.planted and not ledger.processes_of("pilot"):
        return "pilot"
    same, planted = len(ledger.processes_of("same")), len(ledger.processes_of("planted"))
    if same >= targets.same and planted >= targets.planted:
        return None
    behind = planted < targets.planted and planted * targets.same < same * targets.planted
    return "planted" if behind or same >= targets.same else "same"


def following_part(ledger: Ledger, part: Part, targets: Targets) -> Part | None:
    """Return the part that can start early. Planted ones need the pilot's result first."""
    after = next_part(ledger.with_process(part, {}), targets)
    return None if part == "pilot" and after == "planted" else after


def process_run(part: Part, ledger: Ledger, number: int, *, same: Session, planted: Session) -> ProcessRun:
    """Return the process with this number."""
    session = same if part == "same" else planted
    workloads = session.workloads(Kind.TIMING)
    if part == "pilot":
        workloads = tuple(_with_extra(workload, extra) for workload in workloads for extra in (0, _extra(workload)))
    elif part == "planted":
        workloads = tuple(level for workload in workloads for level in _levels(workload, ledger))
    order = random.randrange(2**31)  # noqa: S311 - an order, not a secret
    return ProcessRun(name=f"calibrate-{number}", number=order, session=session, workloads=workloads)


def noise(ledger: Ledger, *, same: Session, planted: Session, commit: str) -> Noise:
    """Return the noise model of the processes so far."""
    device = ledger.sittings[-1].device
    planted_workloads = {workload.id: workload for workload in planted.workloads(Kind.TIMING)}
    return Noise(
        device=device.name,
        driver=device.driver,
        clock_policy=same.clock_policy,
        protocol=PROTOCOL,
        commit=commit,
        sittings=ledger.sittings,
        workloads=tuple(
            WorkloadNoise(
                workload=workload.id,
                roof=workload.roof,
                identity=same.observation(Kind.TIMING, workload).identity,
                same=_series(ledger.processes_of("same"), workload.id),
                planted=tuple(_planted(planted_workloads[workload.id], ledger)) if workload.id in planted_workloads else (),
            )
            for workload in same.workloads(Kind.TIMING)
        ),
    )


def _planted(workload: Workload, ledger: Ledger) -> Iterator[Planted]:
    """Yield every level, each process paired with the next one."""
    processes = ledger.processes_of("planted")
    if len(processes) < MIN_PROCESSES:
        return
    for percent in PLANTED_PERCENT:
        names = _level_name(workload, 0.0), _level_name(workload, percent)
        pairs = itertools.pairwise(processes)
        rounds = [pair for pair in pairs if all(_has_sample(*each) for each in zip(pair, names, strict=True))]
        base, head = (_series((pair[side] for pair in rounds), name) for side, name in enumerate(names))
        yield Planted(percent=percent, confirmed=_median_percent(workload, percent, processes), base=base, head=head)


def _median_percent(workload: Workload, percent: float, processes: tuple[Process, ...]) -> float:
    names = _level_name(workload, percent), _level_name(workload, 0.0)
    samples = [dict(process.samples) for process in processes if all(_has_sample(process, name) for name in names)]
    return 100.0 * (statistics.median(sample[names[0]].megacycles / sample[names[1]].megacycles for sample in samples) - 1.0)


def _levels(workload: Workload, ledger: Ledger) -> Iterator[Workload]:
    """Yield the workload at every level, scaled by the pilot's cost."""
    samples = dict(ledger.processes_of("pilot")[0].samples)
    without, with_extra = (samples.get(_pilot_name(workload, extra)) for extra in (0, _extra(workload)))
    if without is None or with_extra is None or not with_extra.megacycles > without.megacycles:
        fix = "remove the recording's folder, then calibrate again"
        raise CannotCollectError(f"{workload.id}: the planted work could not be measured", fix=fix)
    extra_per_percent = without.megacycles / 100.0 / (with_extra.megacycles - without.megacycles) * _extra(workload)
    yield replace(_with_extra(workload, 0), id=_level_name(workload, 0.0))
    for percent in PLANTED_PERCENT:
        yield replace(_with_extra(workload, round(percent * extra_per_percent)), id=_level_name(workload, percent))


def _with_extra(workload: Workload, extra: int) -> Workload:
    params = tuple((name, extra if name == EXTRA else value) for name, value in workload.params)
    return replace(workload, id=_pilot_name(workload, extra), params=params)


def _extra(workload: Workload) -> int:
    return int(dict(workload.params)[EXTRA])


def _pilot_name(workload: Workload, extra: int) -> str:
    return f"{workload.id}+{extra}"


def _level_name(workload: Workload, percent: float) -> str:
    return f"{workload.id}+{percent}%"


def _has_sample(process: Process, name: str) -> bool:
    return name in dict(process.samples)


def _series(processes: Iterable[Process], name: str) -> Series:
    found = [(process.number, dict(process.samples)[name]) for process in processes if _has_sample(process, name)]
    columns = {key: tuple(getattr(sample, key) for _, sample in found) for key in SAMPLE_KEYS.values()}
    return Series(process=tuple(number for number, _ in found), **columns)
