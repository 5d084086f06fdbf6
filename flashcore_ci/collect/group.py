"""Find the GPUs for workloads that need several, and record the messages between them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from flashcore_ci.adapters import lock, nvml
from flashcore_ci.adapters.nvml import GpuState
from flashcore_ci.collect import isolation
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import GROUP_KINDS, Kind, Workload


def find_gpus(session: Session) -> tuple[str, ...]:
    """Return the session's GPU, then its neighbours or others of its model, as many as the plan needs or as there are."""
    needed = max((workload.gpus for workload in session.plan.workloads), default=1)
    if needed == 1:
        return (session.uuid,)
    model = nvml.read(session.uuid).name
    known = sorted(nvml.uuids()) if session.neighbours is None else session.neighbours
    found = (each.uuid for name in known for each in _states(name) if each.name == model)
    return tuple(dict.fromkeys((session.uuid, *found)))[:needed]  # a GPU has several names


def _states(name: str) -> Iterator[GpuState]:
    """Yield the state of a GPU, unless it does not answer."""
    with contextlib.suppress(CannotCollectError):
        yield nvml.read(name)


@contextlib.contextmanager
def hold(session: Session, gpus: tuple[str, ...]) -> Iterator[None]:
    """Lock these GPUs and their clocks, in the order of their names: two runs that need both cannot wait for each other."""
    with contextlib.ExitStack() as stack:
        for uuid in sorted(gpus):
            file = lock.path(session.lock_dir, uuid)
            stack.enter_context(lock.hold(file, timeout=session.lock_timeout, waiting=session.progress))
            stack.enter_context(nvml.locked_clocks(uuid, session.lock_clocks))
        yield


def sessions(session: Session, gpus: tuple[str, ...]) -> Iterator[Session]:
    """Yield one session per number of GPUs that this machine has and the plan needs."""
    sizes = sorted({workload.gpus for workload in session.plan.workloads if workload.gpus <= len(gpus)}) or [1]
    for size in sizes:
        if size == sizes[0]:
            yield session if size == 1 else replace(session, group=gpus[:size])
        else:
            folder = f"gpus-{size}"
            yield replace(session, group=gpus[:size], scratch=session.scratch / folder, artifacts=f"{session.artifacts}/{folder}")


def without_gpus(session: Session, gpus: tuple[str, ...]) -> Iterator[Observation]:
    """Yield why the workloads that need more GPUs were not measured."""
    for kind in (kind for kind in Kind if kind in GROUP_KINDS):
        for workload in session.plan.workloads_for(kind):
            if workload.gpus > len(gpus) and session.identity(kind, workload) is not None:
                why = f"it needs {workload.gpus} GPUs of one model, and this machine has {len(gpus)}"
                yield session.observation(kind, workload, missing=Missing(code=Code.TOO_FEW_GPUS, message=why))


def record_messages(session: Session, workloads: tuple[Workload, ...]) -> dict[str, Missing]:
    """Let each group run once, so that a tool can run its ranks alone. Return why that failed, by workload."""
    if len(session.gpus) == 1:
        return {}
    session.messages.mkdir(parents=True, exist_ok=True)

    def make_job(workloads: tuple[Workload, ...]) -> JobSpec:
        return session.job("messages", "messages", workloads, seconds=session.seconds(Kind.SANITIZER))

    results = isolation.run_isolated(workloads, make_job, is_healthy=session.is_healthy, at_once=1)
    return {name: result.missing for name, result in results.items() if result.missing is not None}
