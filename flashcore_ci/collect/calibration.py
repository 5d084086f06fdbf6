"""Calibration: how much timings scatter when nothing has changed, and when a little has. Resumable, process by process.

The same binaries are timed in many fresh processes (A/A), and so are test builds with work planted in them, whose amount is a
parameter of the launch. A pilot finds what that work costs; each planted process then times every level beside the kernel
without extra work.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.machine import Machine
from flashcore_ci.collect.process_runs import SAMPLED, Trial
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.noise import PLANTED_PERCENT, Noise, Planted, Series, Sitting, WorkloadNoise
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.model.timing_protocol import PROTOCOL

EXTRA = "extra"
LEAST = 2  # processes make a round

Part = Literal["pilot", "same", "planted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One workload in one process: median ms, Mcycle, SM MHz."""

    ms: float
    megacycles: float
    mhz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process that ran: its number, what it was for, and its samples by name (a workload, or one at a level)."""

    number: int
    part: Part
    samples: tuple[tuple[str, Sample], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A calibration so far. ``key`` is a digest of all that must not change between its sittings."""

    key: str
    sittings: tuple[Sitting, ...] = ()
    processes: tuple[Process, ...] = ()
    schema: Literal["calibration-v1"] = "calibration-v1"

    def of(self, part: Part) -> tuple[Process, ...]:
        """The processes of one part, in their order."""
        return tuple(process for process in self.processes if process.part == part)

    def with_process(self, part: Part, outcomes: dict[str, Outcome]) -> Ledger:
        """One process more, in the sitting that is the last."""
        samples = tuple(
            (name, Sample(**{theirs: float(outcome.values[theirs]) for theirs in SAMPLED.values()}))
            for name, outcome in sorted(outcomes.items())
            if outcome.missing is None
        )
        process = Process(number=len(self.processes), part=part, samples=samples)
        *before, now = self.sittings
        return replace(
            self,
            processes=(*self.processes, process),
            sittings=(*before, replace(now, processes=now.processes + 1)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How many processes of each kind the whole recording has."""

    same: int
    planted: int


def next_part(ledger: Ledger, wanted: Wanted) -> Part | None:
    """What the next process is for; None when all are there. A/A and planted ones take turns, so that they see the same day."""
    if wanted.planted and not ledger.of("pilot"):
        return "pilot"
    same, planted = len(ledger.of("same")), len(ledger.of("planted"))
    if same >= wanted.same and planted >= wanted.planted:
        return None
    behind = planted < wanted.planted and planted * wanted.same < same * wanted.planted
    return "planted" if behind or same >= wanted.same else "same"


def foreseen(ledger: Ledger, part: Part, wanted: Wanted) -> Part | None:
    """What comes after the process for ``part``, if it can be prepared while that runs: levels go by what the pilot finds."""
    after = next_part(ledger.with_process(part, {}), wanted)
    return None if part == "pilot" and after == "planted" else after


def trial(part: Part, ledger: Ledger, number: int, *, same: Machine, planted: Machine) -> Trial:
    """The process with this number."""
    machine = same if part == "same" else planted
    workloads = machine.session.workloads(Kind.TIMING)
    if part == "pilot":
        workloads = tuple(_at(workload, extra) for workload in workloads for extra in (0, _extra(workload)))
    elif part == "planted":
        workloads = tuple(level for workload in workloads for level in _levels(workload, ledger))
    return Trial(name=f"calibrate-{number}", number=random.randrange(2**31), machine=machine, workloads=workloads)  # noqa: S311 - an order


def noise(ledger: Ledger, *, same: Machine, planted: Machine, commit: str) -> Noise:
    """What was learned so far."""
    device = ledger.sittings[-1].device
    seeded = {workload.id: workload for workload in planted.session.workloads(Kind.TIMING)}
    return Noise(
        device=device.name,
        driver=device.driver,
        clock_policy=same.session.context.clock_policy,
        protocol=PROTOCOL,
        commit=commit,
        sittings=ledger.sittings,
        workloads=tuple(
            WorkloadNoise(
                workload=workload.id,
                roof=workload.roof,
                identity=same.session.observation(Kind.TIMING, workload).identity,
                same=_series(ledger.of("same"), workload.id),
                planted=tuple(_planted(seeded[workload.id], ledger)) if workload.id in seeded else (),
            )
            for workload in same.session.workloads(Kind.TIMING)
        ),
    )


def _planted(workload: Workload, ledger: Ledger) -> Iterator[Planted]:
    """Every level that was tried. A round is a process's kernel without extra work against the next process's with it."""
    processes = ledger.of("planted")
    if len(processes) < LEAST:
        return
    for percent in PLANTED_PERCENT:
        names = _name(workload, 0.0), _name(workload, percent)
        rounds = [
            (before, after) for before, after in itertools.pairwise(processes) if _has(before, names[0]) and _has(after, names[1])
        ]
        yield Planted(
            percent=percent,
            confirmed=_confirmed(workload, percent, processes),
            base=_series((before for before, _ in rounds), names[0]),
            head=_series((after for _, after in rounds), names[1]),
        )


def _confirmed(workload: Workload, percent: float, processes: tuple[Process, ...]) -> float:
    """By how many per cent this level's cycles exceed those without extra work in the same process: the median over processes."""
    names = _name(workload, percent), _name(workload, 0.0)
    samples = [dict(process.samples) for process in processes if all(_has(process, name) for name in names)]
    return 100.0 * (statistics.median(sample[names[0]].megacycles / sample[names[1]].megacycles for sample in samples) - 1.0)


def _levels(workload: Workload, ledger: Ledger) -> Iterator[Workload]:
    """The workload without extra work, and at every level; the pilot says what work costs."""
    samples = dict(ledger.of("pilot")[0].samples)
    bare, loaded = (samples.get(_piloted(workload, extra)) for extra in (0, _extra(workload)))
    if bare is None or loaded is None or not loaded.megacycles > bare.megacycles:
        raise CannotCollectError(
            f"{workload.id}: the planted work could not be measured", fix="remove the recording's folder, then calibrate again"
        )
    a_percent = bare.megacycles / 100.0 / (loaded.megacycles - bare.megacycles) * _extra(workload)
    yield replace(_at(workload, 0), id=_name(workload, 0.0))
    for percent in PLANTED_PERCENT:
        yield replace(_at(workload, round(percent * a_percent)), id=_name(workload, percent))


def _at(workload: Workload, extra: int) -> Workload:
    params = tuple((name, extra if name == EXTRA else value) for name, value in workload.params)
    return replace(workload, id=_piloted(workload, extra), params=params)


def _extra(workload: Workload) -> int:
    """The work that the suite gives: what the pilot measures."""
    return int(dict(workload.params)[EXTRA])


def _piloted(workload: Workload, extra: int) -> str:
    return f"{workload.id}+{extra}"


def _name(workload: Workload, percent: float) -> str:
    return f"{workload.id}+{percent}%"


def _has(process: Process, name: str) -> bool:
    return name in dict(process.samples)


def _series(processes: Iterable[Process], name: str) -> Series:
    found = [(process.number, dict(process.samples)[name]) for process in processes if _has(process, name)]
    return Series(
        process=tuple(number for number, _ in found),
        ms=tuple(sample.ms for _, sample in found),
        megacycles=tuple(sample.megacycles for _, sample in found),
        mhz=tuple(sample.mhz for _, sample in found),
    )
