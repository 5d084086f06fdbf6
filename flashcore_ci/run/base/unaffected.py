"""``gate --changed``: only what the difference from a base can affect, and a sentence about the rest."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import flashcore_ci
from flashcore_ci.adapters import git
from flashcore_ci.build.subjects import build_subjects
from flashcore_ci.collect.describe import describe
from flashcore_ci.judge.unaffected import Side, unaffected
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.plan import Excluded, Plan
from flashcore_ci.model.suite import Scope, Suite
from flashcore_ci.plan.planner import keep, make_plan, narrow
from flashcore_ci.report.formatting import plural
from flashcore_ci.run import host, references
from flashcore_ci.run.base import checkout
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.suite.loader import load

SHOWN = 12
"""How many digits of a commit people compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """The plan that is left, and what to say about it beside the verdict."""

    plan: Plan
    said: str


def narrowed(
    suite: Suite, plan: Plan, builds: tuple[BuildEvidence, ...], *, base: str, request: Request, progress: Progress
) -> Narrowed:
    """The plan without what ``base`` answered with the same digests; the whole plan when nothing can be said of the base.

    UsageError when there is no such base.
    """
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as scratch:
        logs = Path(scratch)
        commit = git.fork_point(request.root, base, logs=logs)
        named = f"{base} ({commit[:SHOWN]})"
        if _tool_changed(request.root, commit, logs):
            return Narrowed(plan=plan, said=f"--changed: the tool itself differs from {named}, so everything was asked")
        tree = checkout.of(commit, request, logs)
        try:
            before = _side(tree, logs, request, progress)
        except (SuiteError, EvidenceError, CannotCollectError) as error:
            because = str(error).splitlines()[0]
            return Narrowed(plan=plan, said=f"--changed: everything was asked, since {named} cannot be built: {because}")
    here = Side(plan=plan, builds=builds, waivers=suite.waivers, references=references.of(request.root / request.suite))
    return _without(plan, unaffected(here, before), named)


def _side(tree: Path, scratch: Path, request: Request, progress: Progress) -> Side:
    """The base: planned and built as this checkout is, by the same tool."""
    suite = load(tree / request.suite, root=tree)
    descriptions = describe(suite, root=tree, python=request.settings.python, scratch=scratch / "describe")
    plan = narrow(make_plan(suite, descriptions), request.only)
    builds = build_subjects(
        descriptions,
        root=tree,
        toolchain=host.compiler(request, progress),
        out=scratch / "build",
        cache=request.settings.home / "cache",
        jobs=request.compilers,
        progress=lambda done, of, source: progress(f"compiled {done} of {of} of the base: {source}"),
    )
    return Side(plan=plan, builds=builds, waivers=suite.waivers, references=references.of(tree / request.suite))


def _without(plan: Plan, same: frozenset[tuple[str, str]], named: str) -> Narrowed:
    left = keep(plan, lambda check: check.key not in same)
    why = f"it has the digests, the limit and the waivers that it has at {named}"
    out = tuple(Excluded(gate=check.gate.id, target=check.target, why=why) for check in plan.checks if check.key in same)
    runs = sum(check.scope is Scope.WORKLOAD for check in left.checks)
    counts = ", ".join(f"{gate} {count}" for gate, count in Counter(excluded.gate for excluded in out).items())
    said = (
        f"--changed: {runs or 'none'} of the checks that run kernels can differ from {named}; "
        f"{plural(len(out), 'check')} left out{f': {counts}' if counts else ''}"
    )
    return Narrowed(plan=replace(left, excluded=(*plan.excluded, *out)), said=said)


def _tool_changed(root: Path, commit: str, logs: Path) -> bool:
    """Whether this checkout holds the tool that runs, and another one than the base's. No digest covers how it measures and judges."""
    package = Path(flashcore_ci.__file__).resolve().parent
    if not package.is_relative_to(root.resolve()):
        return False
    inside = package.relative_to(root.resolve()).as_posix()
    return git.differs(root, commit, (inside, f":(exclude){inside}/report"), logs=logs)
