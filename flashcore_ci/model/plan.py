"""The plan: every check, and every (gate, target) that does not apply and why."""

from __future__ import annotations

from dataclasses import dataclass

from flashcore_ci.model.coverage import Manifest
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Accepts, Gate, Kind, Limit, Protocol, Roof, Scope, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One (gate, target). It yields exactly one verdict."""

    gate: Gate
    limit: Limit
    scope: Scope
    target: str
    subject: str

    @property
    def key(self) -> tuple[str, str]:
        """(gate id, target), unique in a plan."""
        return (self.gate.id, self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A (gate, target) that is not judged, and why."""

    gate: str
    target: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The denominator of the verdict. ``workloads`` are those that checks need. ``defaults``: as in ``Suite``."""

    suite: str
    suite_file: str
    checks: tuple[Check, ...]
    excluded: tuple[Excluded, ...]
    workloads: tuple[Workload, ...]
    descriptions: tuple[Description, ...]
    protocol: Protocol
    accepts: Accepts | None = None
    defaults: tuple[tuple[str, str], ...] = ()

    @property
    def manifest(self) -> Manifest:
        """The entry functions of each subject that is built."""
        return {
            one.subject: tuple(entry.symbol for entry in one.build.entries) for one in self.descriptions if one.build is not None
        }

    def workloads_for(self, kind: Kind) -> tuple[Workload, ...]:
        """Return the workloads that need this evidence."""
        return tuple(workload for workload in self.workloads if kind in workload.collect)

    def roof(self, workload: str) -> Roof:
        """Return the roof of this workload."""
        return next(one.roof for one in self.workloads if one.id == workload)

    def description(self, subject: str) -> Description:
        """Return the description of this subject, or raise KeyError."""
        for description in self.descriptions:
            if description.subject == subject:
                return description
        raise KeyError(subject)
