"""Report the versions of the packages that hold modules."""

from __future__ import annotations

import importlib.metadata

from flashcore_ci.worker.job import Job, Result


def run(job: Job, result: Result) -> bool:
    """Write the version of each module of ``options["modules"]`` that is installed."""
    packages = importlib.metadata.packages_distributions()
    for module in job.options["modules"]:
        names = sorted(set(packages.get(module, ())))
        versions = [importlib.metadata.version(name) for name in names]
        if versions:
            result.environment(
                **{module: versions[0] if len(versions) == 1 else " ".join(map("=".join, zip(names, versions, strict=True)))}
            )
    return True
