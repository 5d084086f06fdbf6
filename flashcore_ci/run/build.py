"""Build the kernels of a suite, or check binaries from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashcore_ci.build import interpreted, toolchain
from flashcore_ci.build.subjects import build_subjects, load_builds
from flashcore_ci.collect import resources, versions
from flashcore_ci.model.evidence import BuildEvidence, Evidence, Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.subject import Description
from flashcore_ci.run import host
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request, settings_of
from flashcore_ci.store import codec

Builds = tuple[BuildEvidence, ...]


def build_suite(request: Request, progress: Progress) -> Builds:
    """Build every subject of the requested suite."""
    return build_plan(make_plan(load_suite(request), request, progress), request, progress)


def build_plan(plan: Plan, request: Request, progress: Progress) -> Builds:
    """Build the plan's subjects, or check the binaries of ``--build``."""
    if request.build is not None:
        return bind(load_builds(request.build, plan.descriptions, root=request.root), plan.descriptions, request, request.root)
    progress("building the kernels")
    return compile_subjects(plan.descriptions, request, progress, root=request.root, out=request.binaries)


def compile_subjects(
    descriptions: tuple[Description, ...], request: Request, progress: Progress, *, root: Path, out: Path, side: str = ""
) -> Builds:
    """Compile subjects of ``root`` into ``out``. ``side`` goes into messages."""
    builds = build_subjects(
        descriptions,
        root=root,
        toolchain=host.compiler(request, progress),
        out=out,
        cache=request.settings.home / "cache",
        jobs=request.compilers,
        python=request.settings.python,
        prefix=request.settings.libraries,
        progress=lambda done, of, source: progress(f"compiled {done} of {of}{side}: {source}"),
    )
    return bind(builds, descriptions, request, root)


def bind(builds: Builds, descriptions: tuple[Description, ...], request: Request, root: Path) -> Builds:
    """Bind subjects without machine code to their sources, lock files and versions."""

    def installed(modules: Sequence[str]) -> dict[str, str]:
        with host.scratch_folder() as scratch:
            return versions.installed(modules, root=root, python=request.settings.python, scratch=scratch)

    return interpreted.bind(descriptions, builds, root=root, versions=installed)


def compiler_evidence(plan: Plan, builds: Builds, provenance: Provenance) -> Evidence:
    """Turn build records into evidence. It is never stale."""
    observations = resources.observe(plan.descriptions, builds, plan.protocol)
    return Evidence(provenance=provenance, builds=builds, observations=observations)


def as_text(builds: Builds) -> str:
    """List each entry function's resources, or the compile error."""
    return "\n".join(line for build in builds for line in _lines(build)) + "\n"


def plain(builds: Builds) -> list[Any]:
    """Return the build records as JSON values."""
    return [json.loads(codec.encode(build)) for build in builds]


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


def install_tools(environ: Mapping[str, str], version: str, progress: Progress) -> str:
    """Install the pinned CUDA tools if missing, and name them."""
    settings = settings_of(environ)
    tools = toolchain.install(settings.home, str(settings.python), progress, toolchain.version_of(version))
    return f"{tools.compiler}, compute-sanitizer {tools.sanitizer_version}: {tools.nvcc.parent}"
