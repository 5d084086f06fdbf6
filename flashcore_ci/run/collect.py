"""Evidence: measured on this machine's GPU and written to the run folder, or read from recordings."""

from __future__ import annotations

from dataclasses import replace

from flashcore_ci.collect.collect import collect
from flashcore_ci.judge.judge import Source, baseless
from flashcore_ci.model.evidence import BuildEvidence, Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.verdict import Origin
from flashcore_ci.plan.planner import comparable
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import host
from flashcore_ci.run.base import prepare
from flashcore_ci.run.base.prepare import Base
from flashcore_ci.run.build import build_plan
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.store.claim import LOGS, claimed
from flashcore_ci.store.run import prepare_run, tool_files, write_run


def collect_run(request: Request, progress: Progress) -> Evidence:
    """Measure the suite and write the run folder, without a verdict. CannotCollectError when this machine cannot measure."""
    host.require_gpu(request.gpu)
    plan = make_plan(load_suite(request), request, progress)
    with claimed(request.out):
        prepare_run(request.out, plan)
        builds = build_plan(plan, request, progress)
        return measure(plan, builds, request, progress).evidence


def find_evidence(
    plan: Plan, builds: tuple[BuildEvidence, ...], request: Request, progress: Progress, base: Base | None
) -> tuple[Source, ...]:
    """Measure here, or read the recorded runs."""
    if host.is_live(request):
        return (measure(plan, builds, request, progress, base),)
    progress("reading the recorded runs")
    return recorded.read_bundles(request.evidence)


def measure(
    plan: Plan, builds: tuple[BuildEvidence, ...], request: Request, progress: Progress, base: Base | None = None
) -> Source:
    """Measure on this machine's GPU and write the run folder. CannotCollectError when that is impossible."""
    host.require_gpu(request.gpu)
    logs = request.out / LOGS
    logs.mkdir()
    context = host.context(request, progress, logs.resolve())
    evidence = collect(plan, builds, context, None if base is None else prepare.for_collector(base, plan, builds, request))
    origin = Origin(kind="live", detail=recorded.where_and_when(evidence.provenance))
    source = Source(origin=origin, evidence=evidence)
    write_run(request.out, comparable(plan, baseless(plan, builds, (source,))), evidence)
    return replace(source, files=tool_files(request.out))
