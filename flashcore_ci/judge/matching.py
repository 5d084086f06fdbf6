"""Find the observations of exactly the code that would run now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flashcore_ci.judge.provenance import refusal
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence, Evidence, Identity, Observation
from flashcore_ci.model.identity import (
    FILE,
    UNKNOWN_VERSION,
    is_anchored,
    is_bound,
    static_identity,
    was_same_code,
    workload_identity,
)
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.subject import Problem
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Scope, Workload
from flashcore_ci.model.verdict import Origin

NO_ORIGIN = Origin(kind="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Evidence, its origin, and the tools' files by name (not judged)."""

    origin: Origin
    evidence: Evidence
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedEvidence:
    """The observation for a check, or why there is none."""

    observation: Observation | None = None
    source: Source | None = None
    missing: Missing | None = None
    changed: tuple[str, ...] = ()

    @property
    def origin(self) -> Origin:
        """The origin of the evidence."""
        return self.source.origin if self.source else NO_ORIGIN


@dataclass(slots=True)
class Matcher:
    """Matches sources with checks. ``base``: the required base by workload. ``as_of`` (empty: any time) and age as in ``refusal``."""

    plan: Plan
    builds: tuple[BuildEvidence, ...]
    sources: tuple[Source, ...]
    base: Mapping[str, Identity] = field(default_factory=dict)
    as_of: str = ""
    max_age_days: float | None = None
    _index: list[dict[tuple[Kind, str], list[Observation]]] = field(init=False)
    _matches: dict[tuple[Kind, str], tuple[MatchedEvidence, ...]] = field(init=False, default_factory=dict)
    _refusals: dict[tuple[int, Kind], Missing | None] = field(init=False, default_factory=dict)
    _workloads: dict[str, Workload] = field(init=False)
    _problems: dict[str, Problem] = field(init=False)

    def __post_init__(self) -> None:
        self._index = [_by_target(source.evidence.observations) for source in self.sources]
        problems = [problem for description in self.plan.descriptions for problem in description.problems]
        self._workloads = {workload.id: workload for workload in reversed(self.plan.workloads)}
        self._problems = {problem.workload: problem for problem in reversed(problems)}

    def matches(self, check: Check) -> tuple[MatchedEvidence, ...]:
        """Return the live measurement, else all matching recordings, else one reason."""
        key = (check.gate.evidence, check.target)
        if key not in self._matches:
            self._matches[key] = self._find(check)
        return self._matches[key]

    def _find(self, check: Check) -> tuple[MatchedEvidence, ...]:
        expected = self.expected(check, self.builds)
        if isinstance(expected, Missing):
            return (MatchedEvidence(missing=expected),)
        matches: list[MatchedEvidence] = []
        refused: list[MatchedEvidence] = []
        identities: list[Identity] = []
        for source, index in zip(self.sources, self._index, strict=True):
            observations = index.get((check.gate.evidence, check.target), []) if self._is_trusted(source, check.subject) else []
            current = [o for o in observations if o.identity == expected and self._has_expected_base(check, o)]
            built_here = source.evidence.builds is self.builds and bool(current) and was_same_code(current[0])
            lost = bool(current) and _lost_every_gpu(source, current[0])
            if current and not (built_here or lost) and (missing := self._refusal(source, check.gate.evidence)):
                refused.append(MatchedEvidence(source=source, missing=missing))
            elif current and any(observation != current[0] for observation in current):
                contradiction = f"{len(current)} observations of the same code contradict each other"
                matches.append(MatchedEvidence(source=source, missing=Missing(code=Code.INVALID_RESULT, message=contradiction)))
            elif current:
                matches.append(MatchedEvidence(source=source, observation=current[0]))
            if current and source.origin.kind == "live":
                break
            identities += [observation.identity for observation in observations]
        return tuple(matches) or tuple(refused) or (self._unmatched(check, expected, identities),)

    def _refusal(self, source: Source, kind: Kind) -> Missing | None:
        if kind in STATIC_KINDS:
            return None
        key = (id(source), kind)  # of this matcher's own sources, which live as long as it does
        if key not in self._refusals:
            provenance, oldest = source.evidence.provenance, self.max_age_days
            self._refusals[key] = refusal(provenance, kind, self.plan.accepts, as_of=self.as_of, max_age_days=oldest)
        return self._refusals[key]

    def _is_trusted(self, source: Source, subject: str) -> bool:
        """Whether digests cover what was measured. Else only live evidence counts."""
        has_code = any(d.build is not None for d in self.plan.descriptions if d.subject == subject)
        bound = any(is_bound(build) for build in self.builds if build.subject == subject)
        return has_code or bound or source.origin.kind == "live" or source.evidence.builds is self.builds

    def _has_expected_base(self, check: Check, observation: Observation) -> bool:
        return not self.base or observation.base is None or observation.base == self.base.get(check.target)

    def expected(self, check: Check, builds: tuple[BuildEvidence, ...]) -> Identity | Missing:
        """Compute the identity that evidence must have. Missing if not built."""
        kind = check.gate.evidence
        build = next((build for build in builds if build.subject == check.subject), None)
        if build is None:
            return Missing(code=Code.NOT_BUILT, message=f"{check.subject} was not built")
        if check.scope is Scope.WORKLOAD:
            return self._expected_of_workload(kind, check, build)
        symbols = [check.target] if check.scope is Scope.ENTRY else [entry.symbol for entry in build.entries]
        return static_identity(kind, build, symbols, self.plan.protocol)

    def _expected_of_workload(self, kind: Kind, check: Check, build: BuildEvidence) -> Identity | Missing:
        workload, problem = self._workloads.get(check.target), self._problems.get(check.target)
        if workload is None or problem is None:
            return Missing(code=Code.INVALID_RESULT, message=f"the plan does not describe {check.target}")
        identity = workload_identity(kind, workload, problem, build, self.plan.protocol)
        if identity is None:
            return Missing(code=Code.NOT_BUILT, message=f"{', '.join(problem.entries) or check.subject}: not built")
        return identity

    def _unmatched(self, check: Check, expected: Identity, identities: list[Identity]) -> MatchedEvidence:
        if not identities:
            message = f"no source has {check.gate.evidence} evidence on {check.target}"
            of_subject = (build for build in self.builds if build.subject == check.subject)
            if unknown := ", ".join(
                name for build in of_subject for name, found in build.dependencies if found == UNKNOWN_VERSION
            ):
                message += f". Recordings do not count: neither this machine nor a lock file has the version of {unknown}"
            return MatchedEvidence(missing=Missing(code=Code.NO_EVIDENCE, message=message))
        changed = min((expected.changed(other) for other in identities), key=len)
        names = ", ".join(
            self._changed_dependencies(check.subject) if part == "binding" else part.replace("_", " ") for part in changed
        )
        message = f"the evidence is of other code or another question. Changed since: {names or 'the base'}"
        return MatchedEvidence(missing=Missing(code=Code.STALE_EVIDENCE, message=message), changed=changed)

    def _changed_dependencies(self, subject: str) -> str:
        """Name the sources, lock files and versions that differ, of a kernel that is compiled when it runs."""
        now = {item for build in self.builds if build.subject == subject for item in build.dependencies}
        builds = (build for source in self.sources for build in source.evidence.builds if build.subject == subject)
        differing = ({name for name, _ in now ^ set(build.dependencies)} for build in builds)
        nearest = min(filter(None, differing), key=len, default=set())
        return ", ".join(name.removeprefix(FILE) for name in sorted(nearest)) or "binding"


def _by_target(observations: Iterable[Observation]) -> dict[tuple[Kind, str], list[Observation]]:
    index: dict[tuple[Kind, str], list[Observation]] = {}
    for observation in observations:
        if not is_anchored(observation):  # an anchor may be slower than the base, and never stands in for it
            index.setdefault((observation.kind, observation.target), []).append(observation)
    return index


def _lost_every_gpu(source: Source, observation: Observation) -> bool:
    """Tell whether no machine is left that evidence could name. Only a failure is said without one."""
    lost = observation.missing is not None and observation.missing.code is Code.LOST_GPU
    return lost and source.evidence.provenance.device is None
