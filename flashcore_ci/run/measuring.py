"""Measure a plan on this machine's GPU, and write the run folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from flashcore_ci.collect.collect import collect
from flashcore_ci.collect.comparison import Base
from flashcore_ci.judge.judge import Source, workloads_without_base
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.shard import ShardFile
from flashcore_ci.model.suite import Kind, Suite
from flashcore_ci.model.verdict import Origin
from flashcore_ci.plan.planner import drop_comparisons, new_only
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import handover, host, shards
from flashcore_ci.run.base import prepare
from flashcore_ci.run.base.subject import SecondJudgement
from flashcore_ci.run.build import Builds, build_plan
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.run.shards import Part
from flashcore_ci.store import shard_files
from flashcore_ci.store.claim import LOGS, claim_folder
from flashcore_ci.store.run import prepare_run, write_run


def collect_run(request: Request, progress: Progress, suite: Suite | None = None) -> Evidence:
    """Measure the suite (None: the requested one), or one shard of it, without a verdict."""
    state = host.require_gpu(request.gpu)
    shard = shard_files.read(request.shard) if request.shard is not None else None
    if shard is not None:
        host.require_gpu_of(shard, state)
    with host.importing(request.settings.python):
        return _collect_run(request, progress, suite, shard)


def _collect_run(request: Request, progress: Progress, suite: Suite | None, shard: ShardFile | None) -> Evidence:
    request = replace(request, base=(shard.base or None) if shard is not None else None)
    if request.given is not None and shard is not None and not shard.base:
        with ThreadPoolExecutor(1) as pool:
            commit = pool.submit(host.commit_of, request)  # git takes a twentieth of a second, and the plan a fifth
            plan, builds = handover.read(request.given)
            given = shards.part_of(plan, shard, commit.result())
        with claim_folder(request.out):
            prepare_run(request.out, plan)
            return measure_here(plan, builds, request, progress, part=given).evidence
    suite = suite or load_suite(request)
    plan = make_plan(suite, request, progress)
    part = None if shard is None else shards.part_of(plan, shard, host.commit_of(request))
    with claim_folder(request.out):
        prepare_run(request.out, plan)
        builds = build_plan(plan, request, progress)
        compared = part is not None and part.plan.workloads_for(Kind.COMPARISON)
        with prepare.requested_base(suite, plan, request if compared else replace(request, base=None), progress) as base:
            return measure_here(plan, builds, request, progress, base, part=part).evidence


def prepare_here(request: Request, plan: Plan, *, measures: bool) -> None:
    """Prepare the run folder, once there is a GPU."""
    if measures and not request.kinds and host.is_live(request):  # `compare` may need none
        host.require_gpu(request.gpu)
    prepare_run(request.out, plan)


def measure_here(
    plan: Plan,
    builds: Builds,
    request: Request,
    progress: Progress,
    base: Base | None = None,
    *,
    again: SecondJudgement | None = None,
    part: Part | None = None,
) -> Source:
    """Measure here, all or the ``part`` of a shard, and write the run folder."""
    logs = request.out / LOGS
    logs.mkdir()
    session = host.session(request, progress, logs.resolve(), plan=plan, builds=builds)
    session = session if part is None else replace(session, plan=part.plan, artifacts=part.folder, shards=part.shard.count)
    evidence = collect(session, None if base is None else (base, prepare.interim_looks(base, plan, builds, request)))
    if again is not None:
        evidence = again.measure(session, evidence, request)
    if part is not None:
        evidence = replace(evidence, shard=part.shard)
    source = Source(origin=Origin(kind="live"), evidence=evidence)
    without = workloads_without_base(plan, builds, (source,))
    write_run(request.out, plan if base is None or part is not None else able(plan, base, without), evidence)
    return recorded.live_source(recorded.where_and_when(evidence.provenance), evidence, request.out)


def able(plan: Plan, base: Base, cannot: dict[str, str]) -> Plan:
    """Leave out the comparisons that the base cannot run. The reasons tell which workloads are new."""
    return drop_comparisons(plan, {**cannot, **new_only(cannot, base.new)})
