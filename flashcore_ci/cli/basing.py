"""The base of a comparison: checked out beside the head, given head's subjects, built.

Subjects are head's on both sides, so that both are asked the same; libraries and bindings are each side's own. What the base cannot
run leaves the plan, with the reason.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import git
from flashcore_ci.build.subjects import build_subjects, load_builds
from flashcore_ci.cli import checkouts, live, machine, standards
from flashcore_ci.cli.console import Progress
from flashcore_ci.cli.request import Request
from flashcore_ci.collect.collect import Opponents
from flashcore_ci.collect.describe import describe
from flashcore_ci.judge import looks
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.model.evidence import BuildEvidence, Evidence, Provenance
from flashcore_ci.model.identity import workload_identity
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Kind, SubjectRef, Suite, Workload
from flashcore_ci.plan.planner import comparable
from flashcore_ci.store.run import Run

AT_ONCE = 8
NO_BASE = f"{Code.NO_BASE}: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A commit's checkout under head's subjects, its libraries and builds; ``plan`` holds what both sides can run."""

    commit: str
    root: Path
    libraries: Path
    plan: Plan
    builds: tuple[BuildEvidence, ...]
    cannot: dict[str, str]


def left_from(request: Request, revision: str) -> Request:
    """The request to compare with the commit where this checkout left ``revision``.

    UsageError when there is none, or no GPU to time both on.
    """
    if not (machine.has_gpu() if request.live is None else request.live):
        raise UsageError("--base needs a GPU: both sides are timed here", fix="leave --base away, or run where the GPU is")
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as logs:
        return replace(request, base=git.fork_point(request.root, revision, logs=Path(logs)))


@contextlib.contextmanager
def prepared(commit: str, suite: Suite, plan: Plan, request: Request, progress: Progress) -> Iterator[Base]:
    """The base ``commit``, ready to run whatever it can of ``plan``. One that does not compile can run nothing: no error."""
    progress(f"the base is {commit[: checkouts.SHOWN]}")
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as name:
        scratch = Path(name)
        subjects = tuple(subject.file for subject in suite.subjects)
        root = checkouts.of(commit, request, scratch, ours=subjects)
        wanted = plan.workloads_for(Kind.COMPARISON)
        descriptions, cannot = _described(suite, wanted, root, request, scratch / "describe")
        libraries = request.base_build or scratch / "libraries"
        builds = _built(descriptions, root, libraries, request, progress)
        able = tuple(workload for workload in wanted if workload.id not in cannot)
        cannot |= _unbuilt(able, plan, descriptions, builds)
        yield Base(
            commit=commit,
            root=root,
            libraries=libraries,
            plan=replace(comparable(plan, cannot), descriptions=descriptions),
            builds=builds,
            cannot=cannot,
        )


@contextlib.contextmanager
def asked(suite: Suite, plan: Plan, request: Request, progress: Progress) -> Iterator[Base | None]:
    """The base that the command line asks for; None when it asks for none."""
    if request.base is None:
        yield None
        return
    with prepared(request.base, suite, plan, request, progress) as base:
        yield base


def opponents(base: Base, plan: Plan, request: Request) -> Opponents:
    """The base for the collector, with the verdict's own rule for when it is enough."""
    known = standards.of(request.root / request.suite)

    def final(target: str, samples: Mapping[str, Samples], provenance: Provenance) -> bool:
        return looks.is_final(plan, target, samples, provenance=provenance, standards=known)

    return Opponents(root=base.root, libraries=base.libraries, plan=base.plan, builds=base.builds, looks=looks.LOOKS, final=final)


def baseless(evidence: Evidence) -> dict[str, str]:
    """Workloads of which a measurement showed that the base cannot run them, and how."""
    return {
        observation.target: observation.missing.message
        for observation in evidence.observations
        if observation.kind is Kind.COMPARISON and observation.missing is not None and observation.missing.code is Code.NO_BASE
    }


def as_recorded(request: Request, run: Run) -> Request:
    """The request, with a base when the run compared with one."""
    compared = any(observation.kind is Kind.COMPARISON for observation in run.evidence.observations)
    return replace(request, base="as recorded") if compared else request


def unable(run: Run) -> dict[str, str]:
    """Workloads that the base of a recorded run could not run, and why."""
    said = {excluded.target: excluded.why for excluded in run.plan.excluded if excluded.why.startswith(NO_BASE)}
    return {target: why.removeprefix(NO_BASE) for target, why in said.items()} | baseless(run.evidence)


def _described(
    suite: Suite, wanted: tuple[Workload, ...], root: Path, request: Request, scratch: Path
) -> tuple[tuple[Description, ...], dict[str, str]]:
    """What head's subjects say in the base's checkout; and of which workloads they say that they cannot be, there, and why."""
    cannot: dict[str, str] = {}
    descriptions: list[Description] = []

    def ask(subject: SubjectRef, workloads: tuple[Workload, ...]) -> tuple[Description, ...] | str:
        asked = replace(suite, subjects=(subject,), workloads=workloads)
        try:
            return describe(asked, root=root, python=request.settings.python, scratch=scratch)
        except SuiteError as error:
            return error.problems[0]

    for subject in suite.subjects:
        workloads = tuple(workload for workload in wanted if workload.subject == subject.name)
        said = ask(subject, workloads) if workloads else ()
        if isinstance(said, str):  # which of them cannot be?
            with ThreadPoolExecutor(AT_ONCE) as pool:
                alone = list(pool.map(lambda workload, subject=subject: ask(subject, (workload,)), workloads))
            cannot |= {workload.id: one for workload, one in zip(workloads, alone, strict=True) if isinstance(one, str)}
            able = tuple(workload for workload in workloads if workload.id not in cannot)
            said = ask(subject, able) if able else ()
        descriptions += () if isinstance(said, str) else said
    return tuple(descriptions), cannot


def _built(
    descriptions: tuple[Description, ...], root: Path, libraries: Path, request: Request, progress: Progress
) -> tuple[BuildEvidence, ...]:
    if request.base_build is not None:
        return load_builds(request.base_build, descriptions, root=root)
    return build_subjects(
        descriptions,
        root=root,
        toolchain=live.compiler(request, progress),
        out=libraries,
        cache=request.settings.home / "cache",
        jobs=request.compilers,
        progress=lambda done, of, source: progress(f"base: compiled {done} of {of}: {source}"),
    )


def _unbuilt(
    workloads: tuple[Workload, ...], plan: Plan, descriptions: tuple[Description, ...], builds: tuple[BuildEvidence, ...]
) -> dict[str, str]:
    """Workloads whose kernel the base has not, by its compiler's word."""
    of = {build.subject: build for build in builds}
    problems = {problem.workload: problem for description in descriptions for problem in description.problems}
    cannot = {}
    for workload in workloads:
        build = of[workload.subject]
        identity = workload_identity(Kind.COMPARISON, workload, problems[workload.id], build, plan.protocol)
        if identity is None:
            why = build.error.message if build.error else "an entry function that it launches is not there"
            cannot[workload.id] = f"the base does not build: {why}"
    return cannot
