"""Gate with several GPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flashcore_ci.collect.comparison import Base
from flashcore_ci.fleet import local, measure, slurm
from flashcore_ci.fleet.ahead import Ahead
from flashcore_ci.fleet.engine import Engine, EngineOptions
from flashcore_ci.judge.judge import Source
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.verdict import Report
from flashcore_ci.run import gate, host, shards
from flashcore_ci.run.build import Builds
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store import shard_files

MIN_GPUS = 2
ONE = EngineOptions()
ENGINES: dict[str, Callable[[Request, Path, EngineOptions], Engine]] = {"local": local.make, "slurm": slurm.make}


@contextlib.contextmanager
def starting_early(request: Request, *, is_one: bool) -> Iterator[Ahead | None]:
    """Start a process for each GPU if several may measure: NVML needs half a second to name them, and torch is imported meanwhile."""
    count = 0 if is_one or not _may_use_several(request) else host.gpus_to_start()
    if count < MIN_GPUS:
        yield None
        return
    with host.scratch_folder() as scratch:
        ahead = Ahead(logs=scratch / "ahead", root=request.root)
        ahead.start(count)
        with contextlib.closing(ahead):
            yield ahead


def has_several_gpus(request: Request) -> bool:
    """Tell whether a live run may use more than one GPU."""
    try:
        return _may_use_several(request) and len(local.of_one_model()) >= MIN_GPUS
    except CannotCollectError:
        return False


def _may_use_several(request: Request) -> bool:
    """Tell whether this run can be divided. `collect` has no options for what is for one GPU."""
    for_one = (request.base_build, request.lock_clocks, request.base_python, request.base_toolchain, request.anchor_python)
    return host.is_live(request) and not request.anchor and all(option is None for option in for_one)


def run(request: Request, progress: Progress, *, engine: str = "local", options: EngineOptions = ONE) -> Report:
    """Gate on the GPUs of an engine. Slurm's nodes share this folder."""
    with host.shared_scratch(request.out) as scratch, ThreadPoolExecutor(1) as pool:
        launcher = ENGINES[engine](request, scratch / "logs", options)
        reading = pool.submit(shards.recorded_durations, request)  # while the subjects say what they are

        def measured(plan: Plan, builds: Builds, request: Request, progress: Progress, base: Base | None) -> Source:
            known = reading.result()
            source = measure.measure(
                launcher, plan, builds, request=request, progress=progress, scratch=scratch, base=base, durations=known
            )
            pool.submit(measure.remove_runs, scratch)  # while the gate judges
            return source

        with contextlib.closing(launcher):
            return gate.gate(request, progress, measure=measured)


def matrix(request: Request, progress: Progress, *, gpus: int) -> str:
    """Write shards to ``request.out``, and return the matrix of a GitHub job."""
    from flashcore_ci.fleet import ci  # noqa: PLC0415 - pure text, and seldom needed

    found = shards.cut(request, progress, gpus=gpus)
    return ci.matrix(found, shard_files.write(found, request.out))
