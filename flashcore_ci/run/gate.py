"""The way of the data, one function a step: describe, plan, build, measure or recall, judge, write."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.adapters import clock, process
from flashcore_ci.build.subjects import build_subjects, load_builds
from flashcore_ci.collect import resources
from flashcore_ci.collect.collect import collect
from flashcore_ci.collect.describe import describe
from flashcore_ci.judge.judge import Source, baseless, judge
from flashcore_ci.model.errors import FlashcoreError, InterruptedRunError, SuiteError, as_flashcore_error
from flashcore_ci.model.evidence import BuildEvidence, Evidence, Identity, Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Suite
from flashcore_ci.model.verdict import Origin, Report, StalePolicy
from flashcore_ci.plan.planner import drop_comparisons, make_plan, narrow
from flashcore_ci.run import dossier as dossiers
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import github, gpu, host, references, reports
from flashcore_ci.run.base import prepare, unaffected
from flashcore_ci.run.base.prepare import Base
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.store.claim import LOGS, claim_folder
from flashcore_ci.store.run import prepare_run, read_run, tool_files, write_run
from flashcore_ci.suite.loader import load


@dataclass(slots=True, kw_only=True)
class SoFar:
    """What a run has so far: it is judged even when an error ends the run."""

    suite: Suite | None = None
    plan: Plan | None = None
    builds: tuple[BuildEvidence, ...] = ()
    sources: list[Source] = field(default_factory=list)
    base: dict[str, Identity] = field(default_factory=dict)
    said: str = ""


def gate(request: Request, progress: Progress, *, measured: tuple[Source, ...] = ()) -> Report:
    """The whole job. Reports lie in ``request.out`` on every way out of here, also when an error is raised.

    ``measured``, when given, is the evidence to judge: nothing is measured or recalled.
    """
    request = undeferred(request)
    refuse_absent_suite(request)
    with claim_folder(request.out):
        return _gate(request, progress, measured)


def refuse_absent_suite(request: Request) -> None:
    """SuiteError when there is no suite of this name, before the reports of an earlier run are replaced."""
    if (request.out / reports.REPORT).exists() and not (request.root / request.suite).is_file():
        suite_of(request)


def _gate(request: Request, progress: Progress, measured: tuple[Source, ...]) -> Report:
    reports.clear(request.out)
    so_far = SoFar()
    try:
        suite = so_far.suite = suite_of(request)
        plan = so_far.plan = planned(suite, request, progress)
        prepare_run(request.out, plan)
        builds = so_far.builds = built(plan, request, progress)
        if request.changed is not None:
            left = unaffected.narrowed(suite, plan, builds, base=request.changed, request=request, progress=progress)
            plan, so_far.said = left.plan, left.said
            so_far.plan = plan
        so_far.sources.append(compiled_here(plan, builds, request))
        with prepare.asked(suite, plan, request, progress) as base:
            if base is not None:
                plan, so_far.base = drop_comparisons(plan, base.cannot), base.identities
                so_far.plan = plan
            so_far.sources += measured or evidence_for(plan, builds, request, progress, base)
        so_far.plan = drop_comparisons(plan, baseless(plan, builds, tuple(so_far.sources), so_far.base))
        report = judged(so_far, request, as_of=request.as_of or clock.now())
        publish(report, so_far, request)
    except BaseException as error:  # noqa: BLE001 - reports are owed to CI whatever ended the run; the error is raised again
        return _ended(error, so_far, request)
    return report


def suite_of(request: Request) -> Suite:
    """The suite that was asked for. SuiteError lists everything that is wrong with it."""
    return load(request.root / request.suite, root=request.root)


def planned(suite: Suite, request: Request, progress: Progress) -> Plan:
    """What will be judged, as the subjects in this checkout describe themselves; with a base, its comparisons too."""
    progress("asking the subjects what they are")
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as scratch:
        descriptions = describe(suite, root=request.root, python=request.settings.python, scratch=Path(scratch))
    plan = make_plan(suite, descriptions, compared=request.base is not None)
    if not request.kinds:
        return narrow(plan, request.only)
    of_kind = [gate.id for gate in suite.gates if gate.evidence in request.kinds]
    if not of_kind:
        kinds = ", ".join(request.kinds)
        raise SuiteError(
            (f"{suite.file}: no gate judges evidence of this kind: {kinds}",), fix="add one, as gates/hopper.toml does"
        )
    return narrow(narrow(plan, of_kind), request.only)


def built(plan: Plan, request: Request, progress: Progress) -> tuple[BuildEvidence, ...]:
    """The binaries that ``--build`` names, checked; else made now."""
    if request.build is not None:
        return load_builds(request.build, plan.descriptions, root=request.root)
    return build_subjects(
        plan.descriptions,
        root=request.root,
        toolchain=host.compiler(request, progress),
        out=request.binaries,
        cache=request.settings.home / "cache",
        jobs=request.compilers,
        progress=lambda done, of, source: progress(f"compiled {done} of {of}: {source}"),
    )


def compiled_here(plan: Plan, builds: tuple[BuildEvidence, ...], request: Request) -> Source:
    """What the compiler showed, as evidence: it needs no GPU and is never stale."""
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as scratch:
        origin = host.provenance(request, Path(scratch))
    compilers = dict.fromkeys(build.compiler for build in builds if build.compiler)
    return Source(origin=Origin(kind="live", detail=", ".join(compilers)), evidence=static(plan, builds, origin))


def static(plan: Plan, builds: tuple[BuildEvidence, ...], provenance: Provenance) -> Evidence:
    """The compiler's evidence on ``builds``: what their records say, observed anew."""
    observations = resources.observe(plan.descriptions, builds, plan.protocol)
    return Evidence(provenance=provenance, builds=builds, observations=observations)


def is_live(request: Request) -> bool:
    """Whether to measure here. A GPU without the tools to measure is an error later on, never a reason to fall back silently."""
    return gpu.has_gpu() if request.live is None else request.live


def undeferred(request: Request) -> Request:
    """The request; where the GPU is, nothing can be deferred to a machine that has one."""
    return replace(request, stale=StalePolicy.BLOCK.value) if is_live(request) else request


def evidence_for(
    plan: Plan, builds: tuple[BuildEvidence, ...], request: Request, progress: Progress, base: Base | None
) -> tuple[Source, ...]:
    """Measured here, or recalled."""
    return (measure(plan, builds, request, progress, base),) if is_live(request) else recorded.recall(request.evidence)


def measure(
    plan: Plan, builds: tuple[BuildEvidence, ...], request: Request, progress: Progress, base: Base | None = None
) -> Source:
    """Evidence from this machine's GPU, written to the run folder. CannotCollectError when it cannot be had."""
    gpu.require_gpu(request.gpu)
    logs = request.out / LOGS
    logs.mkdir()
    context = host.context(request, progress, logs.resolve())
    evidence = collect(plan, builds, context, None if base is None else prepare.opponents(base, plan, builds, request))
    source = Source(origin=Origin(kind="live", detail=recorded.where_and_when(evidence.provenance)), evidence=evidence)
    write_run(request.out, drop_comparisons(plan, baseless(plan, builds, (source,))), evidence)
    return replace(source, files=tool_files(request.out))


def collect_only(request: Request, progress: Progress) -> Evidence:
    """The run folder without a verdict."""
    gpu.require_gpu(request.gpu)
    plan = planned(suite_of(request), request, progress)
    with claim_folder(request.out):
        prepare_run(request.out, plan)
        builds = built(plan, request, progress)
        return measure(plan, builds, request, progress).evidence


def judge_run(run: Path, request: Request, progress: Progress) -> Report:
    """The verdict on a recorded run by this checkout's suite, as of its collection unless the request says otherwise."""
    refuse_absent_suite(request)
    with claim_folder(request.out):
        return _judge_run(run, request, progress)


def _judge_run(run: Path, request: Request, progress: Progress) -> Report:
    reports.clear(request.out)
    so_far = SoFar()
    try:
        recording = read_run(run)
        evidence = recording.evidence
        so_far.suite = suite_of(request)
        if recording.plan.suite != so_far.suite.name:
            progress(
                f"this run was collected for the suite {recording.plan.suite!r}, and is judged by {so_far.suite.name!r}: --suite chooses"
            )
        so_far.plan = drop_comparisons(
            planned(so_far.suite, prepare.as_recorded(request, recording), progress), prepare.unable(recording)
        )
        so_far.builds = evidence.builds
        compiled = static(so_far.plan, evidence.builds, evidence.provenance)
        so_far.sources.append(Source(origin=recorded.origin_of(evidence.provenance), evidence=compiled))
        so_far.sources.append(recorded.source_of(recording))
        so_far.plan = drop_comparisons(so_far.plan, baseless(so_far.plan, evidence.builds, tuple(so_far.sources)))
        report = judged(so_far, request, as_of=request.as_of or evidence.provenance.collected_at)
        publish(report, so_far, request)
    except BaseException as error:  # noqa: BLE001 - as in gate
        return _ended(error, so_far, request)
    return report


def judged(so_far: SoFar, request: Request, *, as_of: str) -> Report:
    """The verdicts on what there is: total over the plan. A plan that was narrowed says so: its green is not the suite's."""
    if so_far.suite is None or so_far.plan is None:
        raise InterruptedRunError("there is no plan to judge by")
    report = judge(
        so_far.plan,
        so_far.builds,
        tuple(so_far.sources),
        waivers=so_far.suite.waivers,
        as_of=as_of,
        stale=StalePolicy(request.stale),
        tool=__version__,
        standards=references.of(request.root / request.suite),
        base=so_far.base,
    )
    asked = f"only a part of the suite was asked: --only {' --only '.join(request.only)}" if request.only else ""
    said = "; ".join(filter(None, (asked, so_far.said)))
    return replace(report, headline=f"{report.headline} ({said})") if said else report


def publish(report: Report, so_far: SoFar, request: Request) -> None:
    """Write the reports, and tell GitHub if it is GitHub that runs this."""
    asked = (so_far.suite, so_far.plan, so_far.builds, so_far.sources)
    dossier = dossiers.of(*asked, root=request.root, base=so_far.base)
    reports.write(request.out, report, dossier)
    github.tell(report, dossier, request.environ)


def _ended(error: BaseException, so_far: SoFar, request: Request) -> Report:
    """Write the reports of a run that ``error`` ended; return the report if that was an interruption, else raise ``error``."""
    error = as_flashcore_error(error)
    if process.stopping() and isinstance(error, FlashcoreError):
        error = InterruptedRunError("the run was stopped before it was done")
    as_of = request.as_of or clock.now()
    report = reports.unplanned(error, suite=str(request.suite), as_of=as_of)
    with contextlib.suppress(Exception):  # the error that is being reported comes first
        if so_far.plan is not None:
            report = reports.ended_by(error, judged(so_far, request, as_of=as_of))
    with contextlib.suppress(Exception):
        publish(report, so_far, request)
    if isinstance(error, InterruptedRunError):
        return report
    raise error
