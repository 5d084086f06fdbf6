"""Cut a plan into shards of about equal time. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flashcore_ci.model.devices import most_demanding
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.shard import Unit
from flashcore_ci.model.suite import STATIC_KINDS, Kind
from flashcore_ci.plan.planner import keep

START_SECONDS = dict.fromkeys(Kind, 10.0) | {Kind.CORRECTNESS: 5.2, Kind.SANITIZER: 4.0, Kind.PROFILE: 4.2, Kind.TIMING: 2.7}
"""About what the first unit of a kind costs a shard after the probe. It moves work between shards, and no verdict."""
PREPARED_SECONDS = {Kind.PROFILE: 0.6}
"""The same next to correctness or sanitizers."""
BESIDE = frozenset({Kind.CORRECTNESS, Kind.SANITIZER})
SHARES = {Kind.CORRECTNESS: 0.031, Kind.SANITIZER: 0.022, Kind.MACHINE_CODE: 0.05}
"""How much of its seconds a unit adds to a shard's, next to others."""
PROFILE_WAIT = 0.58
"""How much longer a row's profile takes for each other shard that profiles: ncu waits for the other GPU's (0.41 s, not 0.26)."""
PROBE_SECONDS = 6.5
UNKNOWN_SECONDS = 1.0
MAX_SECONDS = 3600.0
"""The longest time of a unit that is believed."""

Seconds = Mapping[Unit, float]


@dataclass(slots=True)
class _Bin:
    units: list[Unit] = field(default_factory=list)
    kinds: set[Kind] = field(default_factory=set)
    seconds: float = PROBE_SECONDS

    def with_unit(self, unit: Unit, seconds: float) -> float:
        """Return this shard's time with one more unit."""
        return self.seconds + seconds + (0.0 if unit.kind in self.kinds else self._start(unit.kind))

    def _start(self, kind: Kind) -> float:
        is_prepared = kind in PREPARED_SECONDS and not BESIDE.isdisjoint(self.kinds)
        return PREPARED_SECONDS[kind] if is_prepared else START_SECONDS[kind]


def units_of(plan: Plan) -> tuple[Unit, ...]:
    """List what a GPU must measure, in the plan's order."""
    needed = {(check.gate.evidence, check.target) for check in plan.checks}
    kinds = [kind for kind in Kind if kind not in STATIC_KINDS]
    return tuple(Unit(kind=kind, workload=one.id) for kind in kinds for one in plan.workloads if (kind, one.id) in needed)


def units_digest(units: Sequence[Unit]) -> str:
    """Return the digest that names one part of a cut."""
    return digest_of("units", [(unit.kind, unit.workload) for unit in units])


def cut(plan: Plan, seconds: Seconds, count: int) -> tuple[tuple[tuple[Unit, ...], float], ...]:
    """Divide the units into about ``count`` shards, with the estimated seconds of each. Those for several GPUs have shards of their own.

    What runs next to others mostly starts processes, so it is in as few shards as is fastest. Equal inputs give equal shards.
    """
    units = units_of(plan)
    known = dict(_estimates(units, seconds))
    order = {unit: number for number, unit in enumerate(units)}
    gpus = {workload.id: workload.gpus for workload in plan.workloads}
    found: list[_Bin] = []
    for size in sorted({gpus[unit.workload] for unit in units}):
        same = [unit for unit in units if gpus[unit.workload] == size]
        most = max(1, min(count // size, len(same)))
        sizes = sorted({most, *(1 << power for power in range(most.bit_length()))})
        ways = [(few, alone, False) for few in sizes for alone in {1, few}]
        ways += [(few, alone, True) for few, alone, _ in ways if 2 * few <= most]  # shards for each of the two
        tried = [_fill(same, known, most, few=few, alone=alone, apart=apart) for few, alone, apart in ways]
        found += min(tried, key=lambda bins: (max(shard.seconds for shard in bins), sum(bool(shard.units) for shard in bins)))
    return tuple(
        (tuple(sorted(shard.units, key=order.__getitem__)), _longest(shard, seconds, known)) for shard in found if shard.units
    )


def _longest(shard: _Bin, seconds: Seconds, known: Seconds) -> float:
    """Return a shard's time for its limits, which a profile that takes longer than most must not exceed."""
    recorded = ((seconds.get(unit, 0.0), known[unit]) for unit in shard.units if unit.kind is Kind.PROFILE)
    return shard.seconds + sum(value - usual for value, usual in recorded if usual < value <= MAX_SECONDS)


def _fill(units: Sequence[Unit], known: Seconds, count: int, *, few: int, alone: int, apart: bool) -> list[_Bin]:
    """Use ``count`` shards, of which ``few`` have what runs next to others, and ``alone`` have profiles.

    The longest unit of a kind goes first, into the shard that ends first with it (Graham 1969). The longest kind fills the rest.
    """
    bins = [_Bin() for _ in range(count)]
    totals = Counter[Kind]()
    for unit in units:
        totals[unit.kind] += round(1e3 * known[unit])
    for unit in sorted(units, key=lambda unit: (unit.kind not in SHARES, totals[unit.kind], unit.kind, -known[unit])):
        is_profile = unit.kind is Kind.PROFILE
        first = few if apart and unit.kind is Kind.SANITIZER else 0
        shards = bins[-alone:] if is_profile else bins[first : first + few] if unit.kind in SHARES else bins
        seconds = known[unit] * (1.0 + PROFILE_WAIT * (len(shards) - 1) * is_profile)
        best = min(shards, key=lambda shard: shard.with_unit(unit, seconds))
        best.seconds = best.with_unit(unit, seconds)
        best.units.append(unit)
        best.kinds.add(unit.kind)
    return bins


def gpus_of(plan: Plan, units: Sequence[Unit]) -> int:
    """Return the number of GPUs that these units need at once."""
    names = {unit.workload for unit in units}
    return max((workload.gpus for workload in plan.workloads if workload.id in names), default=1)


def architecture_of(plan: Plan, units: Sequence[Unit]) -> str:
    """Return the architecture that the kernels of these units are built for, or "" if they are compiled when they run."""
    names = {unit.workload for unit in units}
    subjects = {workload.subject for workload in plan.workloads if workload.id in names}
    builds = [plan.description(subject).build for subject in sorted(subjects)]
    found = most_demanding(name for build in builds if build is not None for name in build.compile.architectures)
    return found.name if found is not None else ""


def only(plan: Plan, units: Sequence[Unit]) -> Plan:
    """Keep what these units measure. KeyError for a unit that the plan does not have."""
    wanted = {(unit.kind, unit.workload) for unit in units}
    for unit in set(units) - set(units_of(plan)):
        raise KeyError(f"{unit.kind} of {unit.workload}")
    return keep(plan, lambda check: (check.gate.evidence, check.target) in wanted)


def _estimates(units: Sequence[Unit], seconds: Seconds) -> Iterator[tuple[Unit, float]]:
    """Use the recorded time, else the median of its kind. A profile that took longer than most waited for ncu of another run."""
    believed = {unit: value for unit, value in seconds.items() if math.isfinite(value) and 0.0 <= value <= MAX_SECONDS}
    for kind in {unit.kind for unit in units}:
        same = [value for unit, value in believed.items() if unit.kind is kind]
        usual = statistics.median(same) if same else UNKNOWN_SECONDS
        share, most = SHARES.get(kind, 1.0), usual if kind is Kind.PROFILE else MAX_SECONDS
        yield from ((unit, share * min(most, believed.get(unit, usual))) for unit in units if unit.kind is kind)
