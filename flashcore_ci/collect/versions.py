"""Ask a worker for the versions of modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flashcore_ci.bounded.values import shorten
from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobSpec

SECONDS = 60.0


def installed(modules: Sequence[str], *, root: Path, python: Path, scratch: Path) -> dict[str, str]:
    """Return the versions of those modules that the interpreter has. None if it cannot start."""
    if not modules:
        return {}
    options = {"modules": list(modules)}
    spec = JobSpec(
        kind="versions", name="versions", python=python, root=root, scratch=scratch, seconds=SECONDS, subjects=(), workloads=(),
        options=options,
    )  # fmt: skip
    result = child.run(spec)
    if result.failure is not None:
        return {}
    return {name: shorten(str(version)) for name, version in result.environment.items() if name in modules}
