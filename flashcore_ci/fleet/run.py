"""Gate with several GPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flashcore_ci.adapters import nvml
from flashcore_ci.collect.comparison import Base
from flashcore_ci.fleet import measure
from flashcore_ci.fleet.ahead import Ahead
from flashcore_ci.fleet.engine import Engine
from flashcore_ci.fleet.local import LocalEngine
from flashcore_ci.fleet.slurm import SlurmEngine
from flashcore_ci.judge.judge import Source
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.verdict import Report
from flashcore_ci.run import aside, gate, host, shards
from flashcore_ci.run.build import Builds
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store import shard_files

MIN_GPUS = 2
MakeEngine = Callable[[Request, Path], Engine]


def has_several_gpus(request: Request) -> bool:
    """Tell whether a live run may use more than one GPU. Locked clocks and a built base are for one."""
    if not host.is_live(request) or request.base_build is not None or request.lock_clocks is not None:
        return False
    try:
        return len(_of_one_model()) >= MIN_GPUS
    except CannotCollectError:
        return False


def _of_one_model(without: Container[str] = ()) -> list[str]:
    """List the GPUs of the first one's model. Results of two models are not joined."""
    models = {uuid: model for uuid, model in nvml.models().items() if uuid not in without}
    return [uuid for uuid, model in models.items() if model == next(iter(models.values()))]


def run_local(request: Request, progress: Progress) -> Report:
    """Gate on all GPUs of this machine that are of one model."""

    def make(request: Request, logs: Path) -> LocalEngine:
        noted = {gpu: why for gpu, why, _ in aside.noted(request.settings.home)}
        gpus = _of_one_model(without=noted)
        ahead = Ahead(logs=logs / "ahead", root=request.root)
        ahead.start(len(gpus))
        left_out = {gpu: noted[gpu] for gpu in nvml.models() if gpu in noted} if noted else {}
        return LocalEngine(request=request, gpus=gpus, logs=logs, ahead=ahead, left_out=left_out)

    return _run(request, progress, make)


def run_slurm(request: Request, progress: Progress, *, nodes: int, options: tuple[str, ...]) -> Report:
    """Gate by one Slurm array job. Its nodes share this folder."""

    def make(request: Request, logs: Path) -> SlurmEngine:
        left_out = aside.nodes(request.settings.home)
        return SlurmEngine(request=request, count=nodes, options=options, logs=logs, left_out=left_out)

    return _run(request, progress, make)


def matrix(request: Request, progress: Progress, *, gpus: int) -> str:
    """Write shards to ``request.out``, and return the matrix of a GitHub job."""
    from flashcore_ci.fleet import ci  # noqa: PLC0415 - pure text, and seldom needed

    found = shards.cut(request, progress, gpus=gpus)
    return ci.matrix(found, shard_files.write(found, request.out))


def _run(request: Request, progress: Progress, make_engine: MakeEngine) -> Report:
    with host.shared_scratch(request.out) as scratch, ThreadPoolExecutor(1) as pool:
        engine = make_engine(request, scratch / "logs")
        reading = pool.submit(shards.recorded_durations, request)  # while the subjects say what they are

        def measured(plan: Plan, builds: Builds, request: Request, progress: Progress, base: Base | None) -> Source:
            known = reading.result()
            return measure.measure(
                engine, plan, builds, request=request, progress=progress, scratch=scratch, base=base, durations=known
            )

        with contextlib.closing(engine) if isinstance(engine, LocalEngine) else contextlib.nullcontext():
            return gate.gate(request, progress, measure=measured)
