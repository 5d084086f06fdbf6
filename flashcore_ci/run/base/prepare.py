"""The base of a comparison: check it out, describe it, build it.

Both sides run head's subject files, but their own libraries and bindings. The base's own subject says how its library is built
and which entry functions run a workload, so a renamed kernel is still compared. The base's own suite says how it is compiled. What the base cannot run is inconclusive, unless
the base's own suite does not have it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from flashcore_ci.adapters import git
from flashcore_ci.build.subjects import load_builds
from flashcore_ci.collect.comparison import Base, InterimLooks
from flashcore_ci.judge.judge import is_comparison_final
from flashcore_ci.judge.stats.sequential_test import INTERIM_LOOKS
from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.model.evidence import Identity, Observation, Provenance
from flashcore_ci.model.identity import SAME_CODE, is_same_code, workload_digest, workload_identity
from flashcore_ci.model.options import DEFAULTS
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Samples, measured
from flashcore_ci.model.suite import Kind, Suite, Workload
from flashcore_ci.plan.planner import drop_comparisons
from flashcore_ci.run import host, references
from flashcore_ci.run.base import anchor
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.base.describe import BaseDescriber, Descriptions, Workloads
from flashcore_ci.run.base.environment import compilers, differences, tools_of
from flashcore_ci.run.build import Builds, bind, compile_subjects
from flashcore_ci.run.project import by_suite_of_base
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.suite.loader import load


def with_fork_point(request: Request, revision: str) -> Request:
    """Compare with where this branch left ``revision``. UsageError without one, or without a GPU."""
    if not host.is_live(request):
        asked = "--anchor" if request.anchor else "--base"
        raise UsageError(f"{asked} needs a GPU: both sides are timed here", fix=f"omit {asked}, or run where the GPU is")
    with host.scratch_folder() as logs:
        base = git.fork_point(request.root, revision, logs=logs)
        return by_suite_of_base(replace(request, base=base), logs=logs)


@contextlib.contextmanager
def requested_base(suite: Suite, plan: Plan, request: Request, progress: Progress) -> Iterator[Base | None]:
    """Prepare the base, if the request has one."""
    if request.base is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        base = stack.enter_context(prepare_base(request.base, suite, plan, request, progress))
        if request.anchor:
            base = replace(base, anchor=_prepare_anchor(stack, suite, plan, request, progress))
        yield base


def _prepare_anchor(stack: contextlib.ExitStack, suite: Suite, plan: Plan, request: Request, progress: Progress) -> Base:
    """Prepare the pinned anchor, and leave out what is not built as it is pinned."""
    pin = anchor.required_pin(request, suite.name)
    there = anchor.of_anchor(request, pin)
    base = stack.enter_context(prepare_base(pin.commit, suite, plan, there, progress, side="anchor"))
    found = anchor.checked(base, pin, there, stack.enter_context(host.scratch_folder()))
    if line := anchor.summary(found, suite):
        progress(line)
    return found


@contextlib.contextmanager
def prepare_base(
    commit: str, suite: Suite, plan: Plan, request: Request, progress: Progress, *, side: str = "base"
) -> Iterator[Base]:
    """Prepare ``commit`` to run what it can of ``plan``, by the tools of its side."""
    progress(f"the {side} is {git.short(commit)}")
    head, request = request, request.of_side(python=request.base_python, toolchain=request.base_toolchain)
    with host.scratch_folder() as scratch:
        workloads = plan.workloads_for(Kind.COMPARISON)
        committed = check_out(commit, request, scratch)
        suite = compiled_as(_own_suite(committed, request.suite), suite)
        describer = BaseDescriber(checkout=committed, python=request.settings.python, scratch=scratch / "describe")
        answers = describer.describe_base_subjects(suite, workloads)
        built = {description.subject for description in plan.descriptions if description.build is not None}
        own = {name for name, answer in answers.items() if answer.description and answer.description.build is None}
        head_files = tuple(subject.file for subject in suite.subjects if subject.name in built - own)
        root = check_out(commit, request, scratch, other_files=head_files)
        descriptions, cannot = describer.describe_both(suite, workloads, base_answers=answers, root=root)
        libraries = request.base_build or scratch / "libraries"
        builds = _build(descriptions, root, libraries, request, progress)
        able = tuple(workload for workload in workloads if workload.id not in cannot)
        identities = _identities(able, plan, descriptions, builds)
        cannot |= {workload.id: _why_unbuilt(workload, builds) for workload in able if workload.id not in identities}
        yield Base(
            commit=commit,
            root=root,
            libraries=libraries,
            plan=replace(drop_comparisons(plan, cannot), descriptions=descriptions),
            builds=builds,
            identities=identities,
            cannot=cannot,
            new=_new_workloads(suite.workloads, committed, request.suite),
            python=request.settings.python,
            environment=tuple(_bumps(side, request, head, builds, scratch)),
        )


def _bumps(side: str, there: Request, head: Request, builds: Builds, scratch: Path) -> Iterator[str]:
    """Name the tools that differ between this side and head."""
    if there.base_python is not None:
        yield from differences(side, dict(tools_of(there, scratch)), dict(tools_of(head, scratch)))
    if there.toolchain != head.toolchain:
        used = compilers(builds)
        yield from differences(side, used, dict.fromkeys(used, host.compiler(head, lambda _: None).compiler))


def same_code(base: Base, plan: Plan, builds: Builds, python: Path) -> tuple[Observation, ...]:
    """Observe the workloads whose builds here prove that both sides run the same code, in the same Python."""
    heads, bases = _identities(plan.workloads_for(Kind.COMPARISON), plan, plan.descriptions, builds), base.identities
    subjects = {workload.id: workload.subject for workload in plan.workloads}
    base_builds, head_builds = ({build.subject: build for build in side} for side in (base.builds, builds))
    reading = ((SAME_CODE, measured(1.0, "count")),)
    return tuple(
        Observation(kind=Kind.COMPARISON, target=name, identity=head, base=head, readings=reading)
        for name, head in heads.items()
        if base.python in {None, python}
        and is_same_code((bases.get(name), base_builds.get(subjects[name])), (head, head_builds.get(subjects[name])))
    )


def interim_looks(base: Base, plan: Plan, builds: Builds, request: Request) -> InterimLooks:
    """Return when the comparison may stop, by the verdict's rule."""
    known_references = references.of(request.root / request.suite)
    same = frozenset(observation.target for observation in same_code(base, plan, builds, request.settings.python))

    def is_final(target: str, samples: Mapping[str, Samples], provenance: Provenance) -> bool:
        return is_comparison_final(plan, target, samples, provenance=provenance, references=known_references, same_code=same)

    return InterimLooks(rounds=INTERIM_LOOKS, is_final=is_final)


def compiled_as(own_suite: Suite | None, suite: Suite) -> Suite:
    """Return head's suite with the base's options: a slower build must not make the base as slow."""
    return replace(suite, build=own_suite.build if own_suite is not None else DEFAULTS)


def _own_suite(committed: Path, suite: Path) -> Suite | None:
    try:
        return load(committed / suite, root=committed)
    except SuiteError:
        return None


def _new_workloads(workloads: Workloads, committed: Path, suite: Path) -> frozenset[str]:
    """Name the workloads whose problem the base's own suite does not have. None is new if that suite cannot be read."""
    own_suite = _own_suite(committed, suite)
    if own_suite is None:
        return frozenset()
    known = own_suite.workloads
    ids, problems = {old.id for old in known}, {workload_digest(old) for old in known}
    return frozenset(new.id for new in workloads if new.id not in ids and workload_digest(new) not in problems)


def _build(descriptions: Descriptions, root: Path, libraries: Path, request: Request, progress: Progress) -> Builds:
    if request.base_build is not None:
        return bind(load_builds(request.base_build, descriptions, root=root), descriptions, request, root)
    progress("building the base")
    return compile_subjects(descriptions, request, progress, root=root, out=libraries, side=" of the base")


def _identities(workloads: Workloads, plan: Plan, descriptions: Descriptions, builds: Builds) -> dict[str, Identity]:
    build_of = {build.subject: build for build in builds}
    problems = {problem.workload: problem for description in descriptions for problem in description.problems}
    built = [one for one in workloads if one.subject in build_of]
    kind, protocol = Kind.COMPARISON, plan.protocol
    found = {w.id: workload_identity(kind, w, problems[w.id], build_of[w.subject], protocol) for w in built}
    return {name: identity for name, identity in found.items() if identity is not None}


def _why_unbuilt(workload: Workload, builds: Builds) -> str:
    error = next((build.error for build in builds if build.subject == workload.subject), None)
    return f"the base does not build: {error.message if error else 'it has no entry function that the workload launches'}"
