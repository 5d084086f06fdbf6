"""``gate --changed``: judge only what differs from a base."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import flashcore_ci
from flashcore_ci.adapters import git
from flashcore_ci.collect.describe import describe
from flashcore_ci.judge.unaffected import Side, unaffected
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError
from flashcore_ci.model.plan import Excluded, Plan
from flashcore_ci.model.suite import Scope, Suite
from flashcore_ci.plan import planner
from flashcore_ci.report.formatting import plural
from flashcore_ci.run import references
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.build import Builds, compile_subjects
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.suite.loader import load


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedPlan:
    """A plan, and what it leaves out."""

    plan: Plan
    summary: str


def narrow(suite: Suite, plan: Plan, builds: Builds, *, base: str, request: Request, progress: Progress) -> NarrowedPlan:
    """Leave out checks with the digests of ``base``, none if it does not build. UsageError without such a base."""
    with scratch_folder() as logs:
        commit = git.fork_point(request.root, base, logs=logs)
        name = f"{base} ({git.short(commit)})"
        if _tool_changed(request.root, commit, logs):
            return NarrowedPlan(plan=plan, summary=f"--changed: the tool itself differs from {name}, so every check is judged")
        tree = check_out(commit, request, logs)
        try:
            before = _side(tree, logs, request, progress)
        except (SuiteError, EvidenceError, CannotCollectError) as error:
            problem = str(error).splitlines()[0]
            return NarrowedPlan(plan=plan, summary=f"--changed: every check is judged, because {name} cannot be built: {problem}")
    here = Side(plan=plan, builds=builds, waivers=suite.waivers, references=references.of(request.root / request.suite))
    return _without(plan, unaffected(here, before), name)


def _side(tree: Path, scratch: Path, request: Request, progress: Progress) -> Side:
    suite = load(tree / request.suite, root=tree)
    descriptions = describe(suite, root=tree, python=request.settings.python, scratch=scratch / "describe")
    plan = planner.narrow(planner.make_plan(suite, descriptions), request.only)
    builds = compile_subjects(descriptions, request, progress, root=tree, out=scratch / "build", side=" of the base")
    return Side(plan=plan, builds=builds, waivers=suite.waivers, references=references.of(tree / request.suite))


def _without(plan: Plan, same: frozenset[tuple[str, str]], name: str) -> NarrowedPlan:
    rest = planner.keep(plan, lambda check: check.key not in same)
    why = f"it has the digests, the limit and the waivers that it has at {name}"
    excluded = tuple(Excluded(gate=check.gate.id, target=check.target, why=why) for check in plan.checks if check.key in same)
    runs = sum(check.scope is Scope.WORKLOAD for check in rest.checks)
    counts = ", ".join(f"{gate} {count}" for gate, count in Counter(pair.gate for pair in excluded).items())
    summary = (
        f"--changed: {runs or 'none'} of the checks that run kernels can differ from {name}; "
        f"{plural(len(excluded), 'check')} left out{f': {counts}' if counts else ''}"
    )
    return NarrowedPlan(plan=replace(rest, excluded=(*plan.excluded, *excluded)), summary=summary)


def _tool_changed(root: Path, commit: str, logs: Path) -> bool:
    """Tell whether this checkout holds the tool and it differs, as no digest shows."""
    package = Path(flashcore_ci.__file__).resolve().parent
    if not package.is_relative_to(root.resolve()):
        return False
    inside = package.relative_to(root.resolve()).as_posix()
    return git.differs(root, commit, inside, except_for="report", logs=logs)
