"""The tools of one side of a comparison. A bump of a tool is measured by giving each side its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from flashcore_ci.collect import versions
from flashcore_ci.run.build import Builds
from flashcore_ci.run.request import Request

FRAMEWORKS = ("torch", "triton")
Tools = tuple[tuple[str, str], ...]


def tools_of(request: Request, scratch: Path) -> Tools:
    """Return the frameworks of the interpreter that runs the workloads, with their versions."""
    found = versions.installed(FRAMEWORKS, root=request.root, python=request.settings.python, scratch=scratch)
    return tuple(sorted(found.items()))


def compilers(builds: Builds) -> dict[str, str]:
    """Return the compiler of each subject."""
    return {f"compiler of {build.subject}": build.compiler for build in builds if build.compiler}


def differences(side: str, tools: Mapping[str, str], head: Mapping[str, str]) -> Iterable[str]:
    """Name every tool that differs, in one line each."""
    for name in sorted(tools.keys() & head.keys()):
        if tools[name] != head[name]:
            yield f"{name}: {tools[name]} for {side}, {head[name]} for head"
