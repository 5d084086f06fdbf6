"""The binaries of a suite: built now, or checked when they were built elsewhere."""

from __future__ import annotations

from flashcore_ci.build.subjects import build_subjects, load_builds
from flashcore_ci.collect import resources
from flashcore_ci.model.evidence import BuildEvidence, Evidence, Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.run import host
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request


def build_suite(request: Request, progress: Progress) -> tuple[BuildEvidence, ...]:
    """Build every subject of the suite that the request names."""
    return build_plan(make_plan(load_suite(request), request, progress), request, progress)


def build_plan(plan: Plan, request: Request, progress: Progress) -> tuple[BuildEvidence, ...]:
    """Build the plan's subjects, or check the binaries that ``--build`` names."""
    if request.build is not None:
        return load_builds(request.build, plan.descriptions, root=request.root)
    progress("building the kernels")
    return build_subjects(
        plan.descriptions,
        root=request.root,
        toolchain=host.compiler(request, progress),
        out=request.binaries,
        cache=request.settings.home / "cache",
        jobs=request.compilers,
        progress=lambda done, of, source: progress(f"compiled {done} of {of}: {source}"),
    )


def compiler_evidence(plan: Plan, builds: tuple[BuildEvidence, ...], provenance: Provenance) -> Evidence:
    """Derive the evidence on resources from what the build records say. It is never stale."""
    observations = resources.observe(plan.descriptions, builds, plan.protocol)
    return Evidence(provenance=provenance, builds=builds, observations=observations)


def as_text(builds: tuple[BuildEvidence, ...]) -> str:
    """List each library with the resources of its entry functions, or the first compile error."""
    return "\n".join(line for build in builds for line in _lines(build)) + "\n"


def _lines(build: BuildEvidence) -> list[str]:
    if build.error is not None:
        place = f"{build.error.file}:{build.error.line}" if build.error.line else build.error.file
        return [f"{build.subject}: {place}: {build.error.message}"]
    lines = [f"{build.subject}: {build.library or 'no machine code at build time'}"]
    for entry in build.entries:
        spills = entry.spill_store_bytes + entry.spill_load_bytes
        lines.append(
            f"  {entry.symbol}: {entry.highest_register} registers, {spills} byte spilled, "
            f"{entry.stack_bytes} byte stack, {entry.static_shared_bytes + entry.dynamic_shared_bytes} byte shared"
        )
        lines += [f"    {warning}" for warning in entry.warnings]
    return lines
