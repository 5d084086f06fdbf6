"""The base of a comparison: checked out beside the head, given head's subjects, built.

Subjects are head's on both sides, so that both are asked the same; libraries and bindings are each side's own. How the base's library is
made, and by which entry functions it runs a workload, is the word of the base's own subject: a kernel that head gave another name
is still what head is compared with. Where it has none (a new subject, a new parameter), head's subject is asked in the base's
checkout. What the base cannot run leaves the plan, with the reason.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import git
from flashcore_ci.build.subjects import build_subjects, load_builds
from flashcore_ci.collect.collect import Opponents
from flashcore_ci.judge import interim
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.evidence import BuildEvidence, Identity, Provenance
from flashcore_ci.model.identity import is_same_code, workload_identity
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Kind, Suite, Workload
from flashcore_ci.plan.planner import drop_comparisons
from flashcore_ci.run import gpu, host, references
from flashcore_ci.run.base import checkout
from flashcore_ci.run.base.describe import Said, Words
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.store.run import Run

NO_BASE = f"{Code.NO_BASE}: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A commit's checkout under head's subjects, its libraries and builds; ``plan`` holds what both sides can run.

    ``identities`` are what it would run, by workload.
    """

    commit: str
    root: Path
    libraries: Path
    plan: Plan
    builds: tuple[BuildEvidence, ...]
    identities: dict[str, Identity]
    cannot: dict[str, str]


def left_from(request: Request, revision: str) -> Request:
    """The request to compare with the commit where this checkout left ``revision``.

    UsageError when there is none, or no GPU to time both on.
    """
    if not (gpu.has_gpu() if request.live is None else request.live):
        raise UsageError("--base needs a GPU: both sides are timed here", fix="leave --base away, or run where the GPU is")
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as logs:
        return replace(request, base=git.fork_point(request.root, revision, logs=Path(logs)))


@contextlib.contextmanager
def prepared(commit: str, suite: Suite, plan: Plan, request: Request, progress: Progress) -> Iterator[Base]:
    """The base ``commit``, ready to run whatever it can of ``plan``. One that does not compile can run nothing: no error."""
    progress(f"the base is {commit[: checkout.SHOWN]}")
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as name:
        scratch = Path(name)
        wanted = plan.workloads_for(Kind.COMPARISON)
        words = Words(
            checkout=checkout.of(commit, request, scratch), python=request.settings.python, scratch=scratch / "describe"
        )
        own = words.own(suite, wanted)
        asked = tuple(
            subject.file
            for subject in suite.subjects
            if _builds(subject.name, plan.descriptions) and _is_asked_by_head(own.get(subject.name))
        )
        root = checkout.of(commit, request, scratch, ours=asked)
        descriptions, cannot = words.on(suite, wanted, own=own, heads=root)
        libraries = request.base_build or scratch / "libraries"
        builds = _built(descriptions, root, libraries, request, progress)
        able = tuple(workload for workload in wanted if workload.id not in cannot)
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
        )


@contextlib.contextmanager
def asked(suite: Suite, plan: Plan, request: Request, progress: Progress) -> Iterator[Base | None]:
    """The base that the command line asks for; None when it asks for none."""
    if request.base is None:
        yield None
        return
    with prepared(request.base, suite, plan, request, progress) as base:
        yield base


def opponents(base: Base, plan: Plan, builds: tuple[BuildEvidence, ...], request: Request) -> Opponents:
    """The base for the collector, with the verdict's own rule for when it is enough."""
    known = references.of(request.root / request.suite)
    heads = _identities(plan.workloads_for(Kind.COMPARISON), plan, plan.descriptions, builds)
    same = frozenset(
        name for name, head in heads.items() if name in base.identities and is_same_code(base.identities[name], head)
    )

    def final(target: str, samples: Mapping[str, Samples], provenance: Provenance) -> bool:
        return interim.is_final(plan, target, samples, provenance=provenance, standards=known, same=same)

    return Opponents(
        root=base.root, libraries=base.libraries, plan=base.plan, builds=base.builds, looks=interim.LOOKS, final=final
    )


def as_recorded(request: Request, run: Run) -> Request:
    """The request, with a base when the run compared with one."""
    compared = any(observation.kind is Kind.COMPARISON for observation in run.evidence.observations)
    return replace(request, base="as recorded") if compared else request


def unable(run: Run) -> dict[str, str]:
    """Workloads that the base of a recorded run could not even build, and why."""
    said = {excluded.target: excluded.why for excluded in run.plan.excluded if excluded.why.startswith(NO_BASE)}
    return {target: why.removeprefix(NO_BASE) for target, why in said.items()}


def _builds(subject: str, descriptions: Iterable[Description]) -> bool:
    """Whether this subject has a build. One that has none holds its kernel itself, so each side runs its own file."""
    return any(said.subject == subject and said.build is not None for said in descriptions)


def _is_asked_by_head(own: Said | None) -> bool:
    """Whether head's subject asks the base too: unless the base's own subject builds nothing."""
    return own is None or own[0] is None or own[0].build is not None


def _built(
    descriptions: tuple[Description, ...], root: Path, libraries: Path, request: Request, progress: Progress
) -> tuple[BuildEvidence, ...]:
    if request.base_build is not None:
        return load_builds(request.base_build, descriptions, root=root)
    return build_subjects(
        descriptions,
        root=root,
        toolchain=host.compiler(request, progress),
        out=libraries,
        cache=request.settings.home / "cache",
        jobs=request.compilers,
        progress=lambda done, of, source: progress(f"base: compiled {done} of {of}: {source}"),
    )


def _identities(
    workloads: tuple[Workload, ...], plan: Plan, descriptions: tuple[Description, ...], builds: tuple[BuildEvidence, ...]
) -> dict[str, Identity]:
    """What would be compared, by workload; what was not built has none."""
    of = {build.subject: build for build in builds}
    problems = {problem.workload: problem for description in descriptions for problem in description.problems}
    found = {
        workload.id: workload_identity(Kind.COMPARISON, workload, problems[workload.id], of[workload.subject], plan.protocol)
        for workload in workloads
        if workload.subject in of
    }
    return {name: identity for name, identity in found.items() if identity is not None}


def _why_unbuilt(workload: Workload, builds: tuple[BuildEvidence, ...]) -> str:
    """Why the base has no kernel for the workload, by its compiler's word."""
    error = next((build.error for build in builds if build.subject == workload.subject), None)
    return f"the base does not build: {error.message if error else 'an entry function that it launches is not there'}"
