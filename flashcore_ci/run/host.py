"""What a measurement on this machine needs: tools, folders, provenance."""

from __future__ import annotations

import shutil
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.adapters import clock, git, ncu, nvml
from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.collect.session import Session
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import BuildEvidence, Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request


def compiler(request: Request, progress: Progress) -> Toolchain:
    """The CUDA tools that were asked for; the pinned ones are installed when they are missing. CannotCollectError if that fails."""
    if request.toolchain == "pip":
        return tools.install(request.settings.home, str(request.settings.python), progress)
    found = tools.system()
    if found is None:
        raise CannotCollectError("this machine has no nvcc", fix="flashcore-ci toolchain install, and leave --toolchain away")
    return found


def session(request: Request, progress: Progress, scratch: Path, *, plan: Plan, builds: tuple[BuildEvidence, ...]) -> Session:
    """Return what collecting needs to know about this run and this machine."""
    settings = request.settings
    return Session(
        plan=plan,
        builds=builds,
        uuid=nvml.read(request.gpu).uuid,
        root=request.root,
        python=settings.python,
        libraries=request.binaries,
        run_folder=request.out,
        scratch=scratch,
        lock_dir=settings.lock_dir,
        lock_timeout=request.lock_timeout,
        origin=provenance(request, scratch),
        sanitizer=sanitizer(request),
        ncu=ncu.find(),
        allow=request.allow_process,
        lock_clocks=request.lock_clocks,
        progress=progress,
    )


def provenance(request: Request, scratch: Path) -> Provenance:
    """Who measures, what and when; collecting adds the device, the tools and the clock policy."""
    known = request.commit and git.Checkout(commit=request.commit, dirty=False)
    checkout = known or git.checkout(request.root, logs=scratch)
    return Provenance(
        collected_at=clock.now(),
        device=None,
        tools=(),
        commit=checkout.commit,
        dirty=checkout.dirty,
        clock_policy="",
        version=__version__,
    )


def sanitizer(request: Request) -> Path | None:
    """compute-sanitizer from the toolchain that was asked for, else whichever PATH has; measuring needs no compiler."""
    pinned = tools.find(request.settings.home) if request.toolchain == "pip" else None
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if pinned is not None and pinned.sanitizer is not None:
        return pinned.sanitizer
    return Path(found) if found else None
