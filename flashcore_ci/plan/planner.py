"""Suite and descriptions to the checks, the denominator of every verdict."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.metrics import GROUP_METRICS
from flashcore_ci.model.plan import Check, Excluded, Plan
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import STATIC_KINDS, Gate, Kind, Scope, Severity, Suite, Workload, scope_of
from flashcore_ci.plan.roofs import intensity, is_wrong_roof, ridge_point, right_roof

NO_BASE = "there is no base to compare with: give --base REVISION"
NEW_WORKLOAD = "the workload is new: "
NO_MACHINE_CODE = 'its subject has no machine code at build time: name "machine-code" in `collect` of its workloads'

MAGIC = frozenset("*?[")
MAX_CHECKS = 20_000
"""Checks and excluded combinations. The largest suite has 2,000."""


def make_plan(suite: Suite, descriptions: tuple[Description, ...], *, compared: bool = False) -> Plan:
    """Plan every (gate, target): as a check, or as excluded with the reason. ``compared``: there is a base.

    SuiteError lists every wrong roof, target without a limit, glob that matches no entry function and duplicate name. It lists
    idle gates and workloads too, and a suite in which nothing blocks: they would pass unchecked.
    """
    problems = [*_find_wrong_roofs(suite, descriptions), *_find_duplicates(descriptions), *_find_compiled(suite, descriptions)]
    checks: list[Check] = []
    excluded: list[Excluded] = []
    targets: dict[Scope, tuple[_Target, ...]] = {}
    for gate in suite.gates:
        scope = scope_of(gate.evidence)
        targets[scope] = targets.get(scope) or tuple(_targets(scope, suite, descriptions))
        problems += _find_unmatched(gate, targets[scope], suite)
        for pair in _pairs(gate, targets[scope]):
            if isinstance(pair, str):
                problems.append(f"{_where(suite, f'gate {gate.id}')}: no limit matches {pair}")
            elif isinstance(pair, Check) and gate.evidence is Kind.COMPARISON and not compared:
                excluded.append(Excluded(gate=gate.id, target=pair.target, why=NO_BASE))
            elif isinstance(pair, Check):
                checks.append(pair)
            else:
                excluded.append(pair)
            if len(checks) + len(excluded) > MAX_CHECKS:
                problem = f"{suite.file}: more than {MAX_CHECKS} combinations of gate and target"
                raise SuiteError((problem,), fix="divide the suite")
    problems = problems or list(_find_idle(suite, checks, excluded))
    if problems:
        raise SuiteError(tuple(problems), fix="correct the file, then run `flashcore-ci plan`")
    whole = Plan(
        suite=suite.name,
        suite_file=suite.file,
        checks=tuple(checks),
        excluded=tuple(excluded),
        workloads=suite.workloads if compared else _not_compared(suite.workloads, {workload.id for workload in suite.workloads}),
        descriptions=descriptions,
        protocol=suite.protocol,
        accepts=suite.accepts,
        defaults=suite.defaults,
    )
    return _only_needed(whole)


def plan_again(suite: Suite, descriptions: tuple[Description, ...]) -> Plan:
    """Plan all that these subjects alone are measured for."""
    names = {description.subject for description in descriptions}
    found = [pair for gate in suite.gates for pair in pairs(gate, suite, descriptions)]
    checks = [c for c in found if isinstance(c, Check) and c.subject in names and c.gate.evidence not in STATIC_KINDS]
    whole = Plan(
        suite=suite.name,
        suite_file=suite.file,
        checks=tuple(checks),
        excluded=(),
        workloads=suite.workloads,
        descriptions=descriptions,
        protocol=suite.protocol,
    )
    return keep(whole, lambda _: True)


def pairs(gate: Gate, suite: Suite, descriptions: tuple[Description, ...]) -> Iterator[Check | Excluded | str]:
    """Return a check or an exclusion for each target of the gate, or the name of a target without a limit."""
    return _pairs(gate, _targets(scope_of(gate.evidence), suite, descriptions))


def _pairs(gate: Gate, targets: Iterable[_Target]) -> Iterator[Check | Excluded | str]:
    for target in targets:
        why = _why_not(gate, target)
        limit = next((limit for limit in gate.limits if fnmatchcase(target.name, limit.on)), None)
        if why:
            yield Excluded(gate=gate.id, target=target.name, why=why)
        elif limit is None:
            yield target.name
        else:
            judged = replace(gate, evidence=Kind.MACHINE_CODE) if target.is_run else gate
            scope = scope_of(judged.evidence)
            yield Check(gate=judged, limit=limit, scope=scope, target=target.name, subject=target.subject)


def narrow(plan: Plan, globs: Iterable[str]) -> Plan:
    """Keep the checks that match one of ``globs`` (none: all). SuiteError for an idle glob."""
    patterns = tuple(dict.fromkeys(globs))
    if not patterns:
        return plan
    checked = {name for check in plan.checks for name in _names(check.gate.id, check.target)}
    idle = [glob for glob in patterns if not _matched(checked, (glob,))]
    if idle:
        lines = tuple(f"{plan.suite_file}: no check matches {glob!r}{_why_unmatched(glob, plan)}" for glob in idle)
        raise SuiteError(lines, fix="list gates and targets with `flashcore-ci plan`")
    wanted = _matched(checked | {name for e in plan.excluded for name in _names(e.gate, e.target)}, patterns)
    narrowed = keep(plan, lambda check: not wanted.isdisjoint(_names(check.gate.id, check.target)))
    return replace(narrowed, excluded=tuple(e for e in plan.excluded if not wanted.isdisjoint(_names(e.gate, e.target))))


def require_blocking(plan: Plan, *, measures: bool = False) -> None:
    """SuiteError if no check blocks, unless it ``measures``."""
    if not measures and not any(check.limit.severity is Severity.BLOCKING for check in plan.checks):
        problem = f"{plan.suite_file}: no check that --only selects blocks, so the gate would always be green"
        raise SuiteError((problem,), fix="select a blocking check too: `flashcore-ci plan` names the advisory ones")


def keep(plan: Plan, predicate: Callable[[Check], bool]) -> Plan:
    """Keep only these checks, and their evidence."""
    checks = tuple(check for check in plan.checks if predicate(check))
    kinds = {(check.gate.evidence, check.target) for check in checks}
    workloads = tuple(
        replace(workload, collect=tuple(kind for kind in workload.collect if (kind, workload.id) in kinds))
        for workload in plan.workloads
    )
    return _only_needed(replace(plan, checks=checks, workloads=workloads))


def new_only(cannot: Mapping[str, str], new: Container[str]) -> dict[str, str]:
    """Keep the workloads that the base's own suite does not have. Only these may go without a comparison."""
    return {name: f"{NEW_WORKLOAD}{why}" for name, why in cannot.items() if name in new}


def drop_comparisons(plan: Plan, cannot: Mapping[str, str]) -> Plan:
    """Drop the comparisons that the base cannot run (id: reason)."""
    dropped = {c.key: cannot[c.target] for c in plan.checks if c.gate.evidence is Kind.COMPARISON and c.target in cannot}
    excluded = tuple(Excluded(gate=gate, target=target, why=f"no-base: {why}") for (gate, target), why in dropped.items())
    checks = tuple(check for check in plan.checks if check.key not in dropped)
    workloads = _not_compared(plan.workloads, set(cannot))
    return _only_needed(replace(plan, checks=checks, excluded=(*plan.excluded, *excluded), workloads=workloads))


def _not_compared(workloads: Iterable[Workload], names: Container[str]) -> tuple[Workload, ...]:
    return tuple(
        replace(w, collect=tuple(kind for kind in w.collect if kind is not Kind.COMPARISON)) if w.id in names else w
        for w in workloads
    )


def _why_unmatched(glob: str, plan: Plan) -> str:
    names = {name for e in plan.excluded if e.why == NO_BASE for name in _names(e.gate, e.target)}
    return f": {NO_BASE}" if _matched(names, (glob,)) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    name: str
    subject: str
    has_code: bool
    workload: Workload | None = None
    is_run: bool = False


def _targets(scope: Scope, suite: Suite, descriptions: tuple[Description, ...]) -> Iterator[_Target]:
    if scope is Scope.WORKLOAD:
        for workload in suite.workloads:
            yield _Target(name=workload.id, subject=workload.subject, has_code=True, workload=workload)
        return
    for description in descriptions:
        build = description.build
        own = [w for w in suite.workloads if w.subject == description.subject and build is None and scope is Scope.ENTRY]
        if any(Kind.MACHINE_CODE in workload.collect for workload in own):  # the build gates judge what these workloads launch
            collected = ((w.id, Kind.MACHINE_CODE in w.collect) for w in own)
            yield from (
                _Target(name=name, subject=description.subject, has_code=is_run, is_run=is_run) for name, is_run in collected
            )
            continue
        names = [entry.symbol for entry in build.entries] if scope is Scope.ENTRY and build else [description.subject]
        for name in names:
            yield _Target(name=name, subject=description.subject, has_code=build is not None)


def _why_not(gate: Gate, target: _Target) -> str:
    if not target.has_code:
        return NO_MACHINE_CODE
    if not any(fnmatchcase(target.name, glob) for glob in gate.on):
        return f"the gate is for {', '.join(gate.on)}"
    return _why_not_workload(gate, target.workload) if target.workload else ""


def _why_not_workload(gate: Gate, workload: Workload) -> str:
    if gate.evidence not in workload.collect:
        return f"the workload asks for {', '.join(workload.collect)}, not for {gate.evidence}"
    if gate.metric in GROUP_METRICS and workload.gpus == 1:
        return "the workload runs on one GPU"
    if gate.roofs and workload.roof not in gate.roofs:
        return f"its roof is {workload.roof}, the gate is for {', '.join(gate.roofs)}"
    if gate.tags and not set(gate.tags) & set(workload.tags):
        return f"its tags are {', '.join(workload.tags) or 'none'}, the gate is for {', '.join(gate.tags)}"
    return ""


def _find_unmatched(gate: Gate, targets: Sequence[_Target], suite: Suite) -> Iterator[str]:
    """The loader cannot check globs over entry functions."""
    if scope_of(gate.evidence) is not Scope.ENTRY or not any(target.has_code for target in targets):
        return
    for glob in (*gate.on, *(limit.on for limit in gate.limits)):
        if not any(fnmatchcase(target.name, glob) for target in targets):
            yield f'{_where(suite, f"gate {gate.id}")}: "{glob}" matches no entry function'


def _find_wrong_roofs(suite: Suite, descriptions: tuple[Description, ...]) -> Iterator[str]:
    problems = {problem.workload: problem for description in descriptions for problem in description.problems}
    for workload in suite.workloads:
        if Kind.PROFILE not in workload.collect:
            continue
        problem = problems[workload.id]
        if is_wrong_roof(workload.roof, problem, suite.ridge):
            yield (
                f"{_where(suite, f'workload {workload.id}')}: {workload.id}: the roof cannot be "
                f"{workload.roof}: {problem.flops:.4g} FLOP over {problem.bytes:.4g} byte is {intensity(problem):.4g} FLOP/byte, "
                f"and the ridge of {suite.ridge.device} is at {ridge_point(suite.ridge):.4g}: "
                f'write roof = "{right_roof(problem, suite.ridge)}"'
            )


def _find_compiled(suite: Suite, descriptions: tuple[Description, ...]) -> Iterator[str]:
    """A subject with machine code at build time has no other."""
    built = {description.subject for description in descriptions if description.build is not None}
    for workload in suite.workloads:
        if Kind.MACHINE_CODE in workload.collect and workload.subject in built:
            why = f"the machine code of {workload.subject} comes from the build"
            yield f'{_where(suite, f"workload {workload.id}")}: {workload.id}: {why}: drop "{Kind.MACHINE_CODE}" from collect'


def _find_duplicates(descriptions: Sequence[Description]) -> Iterator[str]:
    """A verdict names its target, so names must be unique."""
    builds = [description.build for description in descriptions if description.build is not None]
    counted = Counter(entry.symbol for build in builds for entry in build.entries)
    for symbol, count in counted.items():
        if count > 1:
            yield f"{count} entry functions are called {symbol}: give each its own name, even in different subjects"


def _find_idle(suite: Suite, checks: Sequence[Check], excluded: Sequence[Excluded]) -> Iterator[str]:
    """Report what would pass unchecked."""
    used = {check.gate.id for check in checks} | {e.gate for e in excluded if e.why in {NO_BASE, NO_MACHINE_CODE}}
    judged = {check.target for check in checks if check.scope is Scope.WORKLOAD}
    judged |= {e.target for e in excluded if e.why == NO_BASE}
    for gate in suite.gates:
        if gate.id not in used:
            yield f"{_where(suite, f'gate {gate.id}')}: the gate {gate.id} applies to nothing: no target passes all of on, roofs and tags"
    for workload in suite.workloads:
        if workload.id not in judged:
            yield f"{_where(suite, f'workload {workload.id}')}: no gate judges {workload.id}"
    if not any(check.limit.severity is Severity.BLOCKING for check in checks):
        yield f"{suite.file}: no check blocks, so the gate would always be green"


def _where(suite: Suite, what: str) -> str:
    return dict(suite.sources).get(what, suite.file)


def _names(gate: str, target: str) -> tuple[str, str, str]:
    """Return what a glob may match."""
    return gate, target, f"{gate}/{target}"


def _matched(names: set[str], globs: Sequence[str]) -> set[str]:
    """Return the names that match. Plain ones are looked up."""
    plain = names & {glob for glob in globs if MAGIC.isdisjoint(glob)}
    patterns = [fnmatch.translate(glob) for glob in globs if not MAGIC.isdisjoint(glob)]
    return plain | set(filter(re.compile("|".join(patterns)).match, names)) if patterns else plain


def _only_needed(plan: Plan) -> Plan:
    needed = {check.target for check in plan.checks if check.scope is Scope.WORKLOAD}
    return replace(plan, workloads=tuple(workload for workload in plan.workloads if workload.id in needed))
