"""Base against head: rounds of one fresh process each, in random order, until every workload is decided.

Both sides run under head's suite, subjects and collector, each with its own library and binding. After fixed numbers of rounds
``final`` is asked which workloads are decided; these leave, and nobody looks in between.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flashcore_ci.adapters import process
from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.machine import Machine
from flashcore_ci.collect.process_runs import SAMPLED, Trial, Trials, guilty, keep
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Observation, Provenance
from flashcore_ci.model.identity import is_same_code
from flashcore_ci.model.metrics import METRICS, SIDES
from flashcore_ci.model.reading import Missing, Samples, measured
from flashcore_ci.model.suite import Kind, Workload

Final = Callable[[str, Mapping[str, Samples], Provenance], bool]
"""Whether this workload, with these samples, taken there, has its verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opponent:
    """What head is compared with: the base's machine, after how many rounds one looks, and who says that it is enough."""

    machine: Machine
    looks: tuple[int, ...]
    final: Final


@dataclass(slots=True, kw_only=True)
class Match:
    """One workload so far: for each round that was completed the values of each side, and why others were not."""

    workload: Workload
    rounds: list[dict[str, dict[str, Any]]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    reasons: list[Missing] = field(default_factory=list)
    fault: Missing | None = None
    over: bool = False

    def add(self, number: int, outcomes: Mapping[str, Outcome | None]) -> None:
        """Take in what both sides of a round gave. A side that is at fault itself ends the match; head's fault comes first.

        A base that could run it before still can, whatever ailed it now: the match ends with the rounds that it has.
        """
        for side in SIDES:
            outcome = outcomes[side]
            missing = Missing(code=Code.INVALID_RESULT, message="no outcome") if outcome is None else outcome.missing
            if missing is None:
                continue
            self.lost.append(f"round {number + 1}: {side}: {missing.code}: {missing.message}")
            self.reasons.append(missing)
            self.over = self.over or guilty(outcome)
            if guilty(outcome) and side == "head":
                self.fault = missing
            elif guilty(outcome) and not self.rounds:
                self.fault = Missing(code=Code.NO_BASE, message=f"the base cannot run it: {missing.code}: {missing.message}")
        both = {side: outcome.values for side, outcome in outcomes.items() if outcome is not None and outcome.missing is None}
        if len(both) == len(SIDES):
            self.rounds.append(both)

    def samples(self) -> tuple[tuple[str, Samples], ...]:
        """The completed rounds, paired by index."""
        return tuple(
            (
                f"{side}/{name}",
                Samples(values=tuple(float(values[side][theirs]) for values in self.rounds), unit=METRICS[name].unit),
            )
            for side in SIDES
            for name, theirs in SAMPLED.items()
        )

    def missing(self) -> Missing | None:
        """Why there is nothing to judge, if so: a fault, else the commonest reason for which rounds were lost."""
        if self.fault is not None or self.rounds:
            return self.fault
        if not self.reasons:
            return Missing(code=Code.INTERRUPTED, message="no round was completed")
        commonest = Counter(missing.code for missing in self.reasons).most_common(1)[0][0]
        return next(missing for missing in self.reasons if missing.code is commonest)


def collect(head: Machine, opponent: Opponent, provenance: Provenance) -> tuple[Observation, ...]:
    """One observation for every workload that wants a comparison. Code that is the same on both sides is not timed."""
    workloads = head.session.workloads(Kind.COMPARISON)
    same = {workload.id for workload in workloads if _same(head, opponent.machine, workload)}
    matches = {workload.id: Match(workload=workload) for workload in workloads if workload.id not in same}
    artifacts = _play(head, opponent, matches, provenance)
    return tuple(
        _same_code(head, opponent, workload) if workload.id in same else _observe(head, opponent, matches[workload.id], artifacts)
        for workload in workloads
    )


def _same(head: Machine, base: Machine, workload: Workload) -> bool:
    sides = [machine.session.identity(Kind.COMPARISON, workload) for machine in (base, head)]
    return sides[0] is not None and sides[1] is not None and is_same_code(sides[0], sides[1])


def _play(head: Machine, opponent: Opponent, matches: dict[str, Match], provenance: Provenance) -> list[str]:
    """Rounds until all matches are decided; the names of the files with every block of launches."""
    machines = {"base": opponent.machine, "head": head}
    trials = Trials(head.session.context.scratch)
    artifacts: list[str] = []
    told: dict[str, bool] = {}
    left = tuple(match.workload for match in matches.values())
    try:
        for begin, end in itertools.pairwise((0, *opponent.looks)):
            if not left or process.stopping():
                break
            rounds = [_Round(number=number, machines=machines, workloads=left, told=told) for number in range(begin, end)]
            for number, outcomes in _finished(rounds, trials, head):
                for side in SIDES:
                    artifacts += keep(head.session.context, "comparison", f"round-{number}-{side}", outcomes[side].values())
                for workload in left:
                    matches[workload.id].add(number, {side: outcomes[side].get(workload.id) for side in SIDES})
            left = tuple(workload for workload in left if not _over(matches[workload.id], opponent, provenance))
    finally:
        trials.close()
    return artifacts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """The two processes of a round, in random order. ``told`` learns from the first process ever how each workload is launched."""

    number: int
    machines: Mapping[str, Machine]
    workloads: tuple[Workload, ...]
    told: dict[str, bool]
    order: tuple[str, ...] = field(default_factory=lambda: tuple(random.sample(SIDES, len(SIDES))))

    def trial(self, side: str) -> Trial:
        return Trial(
            name=f"round-{self.number}-{side}",
            number=self.number * len(SIDES) + SIDES.index(side),
            machine=self.machines[side],
            workloads=self.workloads,
            options={"batched": dict(self.told)},
        )


def _finished(rounds: list[_Round], trials: Trials, head: Machine) -> Iterator[tuple[int, dict[str, dict[str, Outcome]]]]:
    """The outcomes of each round, side by side. The next process starts while one measures; not so after the very first."""
    queue = [(one, side) for one in rounds for side in one.order]
    outcomes: dict[str, dict[str, Outcome]] = {}
    for (one, side), after in itertools.zip_longest(queue, queue[1:]):
        if process.stopping():
            return
        trial = one.trial(side)
        trials.start(trial)
        if after is not None and one.told:
            trials.start(after[0].trial(after[1]))
        head.session.context.progress(f"comparison: round {one.number + 1}, {side}, {len(one.workloads)} workloads")
        outcomes[side] = trials.finish(trial)
        one.told.update(
            {name: o.values["batched"] for name, o in outcomes[side].items() if "batched" in o.values and name not in one.told}
        )
        if len(outcomes) == len(SIDES):
            yield one.number, outcomes
            outcomes = {}


def _over(match: Match, opponent: Opponent, provenance: Provenance) -> bool:
    if match.over:
        return True
    return bool(match.rounds) and opponent.final(match.workload.id, dict(match.samples()), provenance)


def _observe(head: Machine, opponent: Opponent, match: Match, artifacts: list[str]) -> Observation:
    values = [values for both in match.rounds for values in both.values()]
    missing = match.missing()
    return head.session.observation(
        Kind.COMPARISON,
        match.workload,
        base=opponent.machine.session.identity(Kind.COMPARISON, match.workload),
        readings=tuple(
            (f"blocks/{what}", measured(float(sum(value.get(what, 0) for value in values)), "count"))
            for what in ("kept", "dropped")
        ),
        samples=() if missing is not None else match.samples(),
        notes=tuple(match.lost),
        artifacts=tuple(artifacts),
        missing=missing,
        seconds=sum(float(value.get("seconds", 0.0)) for value in values),
    )


def _same_code(head: Machine, opponent: Opponent, workload: Workload) -> Observation:
    return head.session.observation(
        Kind.COMPARISON,
        workload,
        base=opponent.machine.session.identity(Kind.COMPARISON, workload),
        readings=(("comparison/same-code", measured(1.0, "count")),),
    )
