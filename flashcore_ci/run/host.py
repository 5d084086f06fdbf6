"""What a measurement on this machine needs: tools, folders, provenance."""

from __future__ import annotations

import shutil
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.adapters import clock, git, ncu
from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.collect.context import Context
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request


def compiler(request: Request, progress: Progress) -> Toolchain:
    """The CUDA tools that were asked for; the pinned ones are installed when they are missing. CannotCollectError if that fails."""
    if request.toolchain == "pip":
        return tools.install(request.settings.home, str(request.settings.python), progress)
    found = tools.find_system()
    if found is None:
        raise CannotCollectError("this machine has no nvcc", fix="flashcore-ci toolchain install, and leave --toolchain away")
    return found


def context(request: Request, progress: Progress, scratch: Path) -> Context:
    """Everything that collecting needs to know of this machine."""
    settings = request.settings
    return Context(
        root=request.root,
        python=settings.python,
        libraries=request.binaries,
        run=request.out,
        scratch=scratch,
        lock_dir=settings.lock_dir,
        lock_timeout=request.lock_timeout,
        origin=provenance(request, scratch),
        sanitizer=sanitizer(request),
        ncu=ncu.find(),
        gpu=request.gpu,
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
