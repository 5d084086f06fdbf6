"""The pinned CUDA tools: install them."""

from __future__ import annotations

from collections.abc import Mapping

from flashcore_ci.build import toolchain
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import settings_of


def install(environ: Mapping[str, str], progress: Progress) -> str:
    """Install the tools where they are missing. Returns one line on what there is. CannotCollectError if that fails."""
    settings = settings_of(environ)
    tools = toolchain.install(settings.home, str(settings.python), progress)
    return f"{tools.compiler}, compute-sanitizer {tools.sanitizer_version}: {tools.nvcc.parent}"
