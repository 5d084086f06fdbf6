"""Pin an anchor, or replace it: the old and the new one are measured together, so that the history keeps one scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flashcore_ci.adapters import clock, git
from flashcore_ci.build.toolchain import version_with
from flashcore_ci.history.measured import log_ratio
from flashcore_ci.model.anchor import Pin, PinLink, PinnedCode, current
from flashcore_ci.model.errors import CannotCollectError, UsageError
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.run import host
from flashcore_ci.run.base import prepare
from flashcore_ci.run.base.environment import tools_of
from flashcore_ci.run.gate import compare
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.run import read_run
from flashcore_ci.suite.anchors import append_anchor, file_of, read_anchors
from flashcore_ci.suite.tables import require_prose


def pin(commit: str, request: Request, progress: Progress, *, reason: str, owner: str) -> Path:
    """Pin the first anchor. It is built and not measured. UsageError if the suite has one."""
    old, found = _built(commit, request, progress, reason=reason, owner=owner)
    if old is not None:
        raise UsageError(f"the anchor is {git.short(old.commit)}", fix=f"flashcore-ci history anchor replace {commit}")
    return append_anchor(request.suite, found)


def replaced(commit: str, request: Request, progress: Progress, *, reason: str, owner: str) -> tuple[Path, tuple[str, ...]]:
    """Replace the anchor after both were measured together. Return the file, and the workloads that begin a new chain."""
    old, found = _built(commit, request, progress, reason=reason, owner=owner)
    if old is None:
        raise UsageError(f"{file_of(request.suite)} pins no anchor", fix=f"flashcore-ci history anchor pin {commit}")
    there = replace(
        request,
        base_python=request.anchor_python,
        base_toolchain=request.toolchain if request.toolchain == "system" else version_with((old.compiler,)),
    )
    compare(there, old.commit, commit, progress)
    run = read_run(request.out)
    device = run.evidence.provenance
    workloads = {workload.id: workload for workload in run.plan.workloads}
    linked = [_link(workloads[seen.target], seen, old, device.machine_class) for seen in run.evidence.observations]
    links = tuple(link for link in linked if link is not None)
    if not links:
        raise CannotCollectError("no workload was measured with both anchors", fix=f"flashcore-ci report {request.out}")
    unlinked = sorted(found.codes.keys() - {link.workload for link in links})
    return append_anchor(request.suite, replace(found, links=links)), tuple(unlinked)


def _built(commit: str, request: Request, progress: Progress, *, reason: str, owner: str) -> tuple[Pin | None, Pin]:
    """Return the present anchor, and the one that ``commit`` would be."""
    reason, owner = require_prose("--reason", reason), require_prose("--owner", owner)
    with host.scratch_folder() as scratch:
        commit = git.commit_of(request.root, commit, logs=scratch)
        there = replace(request, base=commit, kinds=(Kind.COMPARISON,))
        suite = load_suite(there)
        old = current(read_anchors(request.root / request.suite), suite.name)
        plan = make_plan(suite, there, progress)
        with prepare.prepare_base(commit, suite, plan, there, progress, side="anchor") as base:
            subjects = {workload.id: workload.subject for workload in plan.workloads}
            parts = ("machine_code", "launcher", "binding")
            codes = {
                name: PinnedCode(subject=subjects[name], source=seen.subject, **{part: getattr(seen, part) for part in parts})
                for name, seen in sorted(base.identities.items())
            }
            if not codes:
                why = next(iter(base.cannot.values()), "the suite compares nothing")
                raise CannotCollectError(f"{git.short(commit)} runs no workload: {why}", fix="name another commit")
            compiler = next((build.compiler for build in base.builds if build.compiler), "none")
            tools = tools_of(request, scratch)
    since = clock.now()[:10]
    return old, Pin(
        suite=suite.name, commit=commit, since=since, reason=reason, owner=owner, compiler=compiler, tools=tools, codes=codes
    )


def _link(workload: Workload, seen: Observation, old: Pin, machine_class: str) -> PinLink | None:
    """Return what one workload measured. None if its base is not the pinned build, or nothing was measured."""
    pinned = old.codes.get(workload.id)
    found = log_ratio(workload, seen)
    if seen.base is None or pinned is None or pinned.difference(seen.base) or found is None:
        return None
    values = {**found, "standard_error": found["standard_error"] or 0.0}
    del values["far"]
    return PinLink(workload=workload.id, machine_class=machine_class, **values)
