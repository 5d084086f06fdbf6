"""Run all collectors of a plan in order, on a locked GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path

from flashcore_ci.adapters import host, ncu, nvml, process, sanitizer
from flashcore_ci.adapters.nvml import GpuState
from flashcore_ci.collect import comparison, correctness, group, machine_code, profile, timing
from flashcore_ci.collect import sanitizer as checks
from flashcore_ci.collect.comparison import Base, InterimLooks
from flashcore_ci.collect.session import Session, probe_failure
from flashcore_ci.collect.start_signal import StartSignal
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import Device, Evidence, Observation, Provenance, machine_class
from flashcore_ci.model.identity import is_anchored
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind

AT_ONCE = {
    Kind.CORRECTNESS: correctness.collect,
    Kind.SANITIZER: checks.collect,
    Kind.MACHINE_CODE: machine_code.collect,
}
"""Collectors that run at the same time: a busy GPU does not change their readings. Profile and timing have the GPU alone."""

MANY_CPUS = 8
"""With so many, ncu's reports are read while kernels are timed."""
MANY_SANITIZED = 24
"""With so many next to correctness, all but racecheck waits for the probe: imports of torch delay each other."""
WORKER_TOOLS = ("python", "torch")


def collect(session: Session, compared_with: tuple[Base, InterimLooks] | None = None) -> Evidence:
    """Measure all that the plan asks of this GPU. A stopped run keeps what it has.

    CannotCollectError if GPU, tool or torch are missing, or if the GPU stays locked.
    """
    state = nvml.read(session.uuid)
    users = frozenset(user.pid for user in state.users)
    with ThreadPoolExecutor(1) as pool:  # the versions of the tools take a second, and correctness starts meanwhile
        asked = pool.submit(_versions, session)
        session = replace(session, versions=asked.result, memory=state.memory, users=users)
        _require_tools(session)
        return _collect(session, state, compared_with)


def _collect(session: Session, state: GpuState, compared_with: tuple[Base, InterimLooks] | None) -> Evidence:
    gpus = group.find_gpus(session)
    with group.hold(session, gpus), nvml.neighbours(gpus) as loads:
        measured = list(group.without_gpus(session, gpus))
        environment: dict[str, object] = {}
        for part in group.sessions(session, gpus):
            found, environment = _measure(part)
            measured += found
        provenance = _provenance(session, state, environment)
        compared = () if compared_with is None else _compare(session, *compared_with, provenance)
    busy = (f"{uuid} of this machine was busy: up to {load} %" for uuid, load in sorted(loads.items()) if load)
    notes = (*session.notes(), *_notes(nvml.unnamed_users(state.users), gpus), *busy)
    return Evidence(provenance=provenance, builds=session.builds, observations=(*measured, *compared), notes=notes)


def _compare(head: Session, base: Base, looks: InterimLooks, provenance: Provenance) -> tuple[Observation, ...]:
    problem = head.check_exclusive()
    if problem is None:
        anchor = base.anchor.session(head) if base.anchor is not None else None
        compared = comparison.collect(head, base.session(head), looks, provenance, anchor)
        bumps = {True: base.anchor.environment if base.anchor is not None else (), False: base.environment}
        compared = tuple(replace(seen, notes=(*bumps[is_anchored(seen)], *seen.notes)) for seen in compared)
        problem = head.check_exclusive()
    return _observe_missing(head, Kind.COMPARISON, problem) if problem is not None else compared


def _measure(session: Session) -> tuple[list[Observation], dict[str, object]]:
    """Run probe, correctness and sanitizers together, then profile, then timing."""
    start_profile = StartSignal(session.scratch / "go-profile")
    with ThreadPoolExecutor() as pool, contextlib.closing(timing.Timer(session)) as timer:
        try:
            probes = [pool.submit(replace(session, uuid=uuid).probe) for uuid in session.gpus]
            many = len(session.workloads(Kind.SANITIZER)) * session.shards >= MANY_SANITIZED
            later = replace(session, may_start=partial(wait, probes)) if many else session
            session.progress("correctness and sanitizers")
            beside = later if session.workloads(Kind.CORRECTNESS) else session
            together = [pool.submit(collector, beside) for collector in AT_ONCE.values()]
            profiling = pool.submit(profile.run, later, start_profile)
            timer.start_ahead(session.workloads(Kind.TIMING), at_once=True)
            session.versions()  # a tool that fails to print its version ends the run now, not after minutes
            session.origin()  # as a file of the checkout that cannot be read does
            probed = [probe.result() for probe in probes]
            timer.start_ahead(session.workloads(Kind.TIMING))  # not before: more imports at once would slow down correctness
            observations = [observation for future in together for observation in future.result()]
            timer.hold()
            unhealthy = next(filter(None, map(probe_failure, probed)), None)
            if unhealthy is not None and unhealthy.code is Code.DEVICE_UNHEALTHY:  # results that look right do not count either
                observations = [replace(observation, readings=(), findings=(), missing=unhealthy) for observation in observations]
            problem = unhealthy or session.check_exclusive(timer.contexts() + profile.contexts(session))
            if problem is None:
                session.progress("profile")
                start_profile.send(session.seconds(Kind.PROFILE))
                reading = pool.submit(profile.read, session, profiling.result())
                if host.cpus() < MANY_CPUS:
                    reading.result()
                problem = session.check_exclusive(timer.contexts())
            else:
                reading = pool.submit(_observe_missing, session, Kind.PROFILE, problem)
            timed = () if problem else timing.collect(session, timer)
            problem = problem or session.check_exclusive()
            observations += reading.result()
            observations += _observe_missing(session, Kind.TIMING, problem) if problem else timed
            return observations, probed[0].environment
        finally:
            start_profile.cancel()


def _observe_missing(session: Session, kind: Kind, missing: Missing) -> tuple[Observation, ...]:
    return tuple(session.observation(kind, workload, missing=missing) for workload in session.workloads(kind))


def _require_tools(session: Session) -> None:
    """Raise CannotCollectError now, and not after minutes."""
    if session.workloads(Kind.SANITIZER):
        session.require_sanitizer()
    if session.workloads(Kind.MACHINE_CODE) and session.nvdisasm is None:
        raise CannotCollectError("nvdisasm was not found", fix="flashcore-ci toolchain install")
    if session.workloads(Kind.PROFILE):
        ncu.import_reader(session.require_ncu())


def _notes(unseen: tuple[nvml.User, ...], gpus: tuple[str, ...]) -> tuple[str, ...]:
    together = (f"workloads of several GPUs ran on {', '.join(gpus)}, with NCCL_NVLS_ENABLE=0",) if len(gpus) > 1 else ()
    if not unseen:
        return together
    pids = ", ".join(str(user.pid) for user in unseen)
    return (
        *together,
        f"cannot tell which program uses the GPU as process {pids}: it may run in another container",
    )


def _provenance(session: Session, state: GpuState, environment: dict[str, object]) -> Provenance:
    workers = ((name, str(environment[name])) for name in WORKER_TOOLS if name in environment)
    device, tools = device_of(state, environment), tuple(sorted((*session.versions(), *workers)))
    return replace(
        session.origin(), device=device, tools=tools, clock_policy=session.clock_policy, machine_class=machine_class(device)
    )


def device_of(state: GpuState, environment: dict[str, object]) -> Device:
    """Return the GPU's record, with the probe's ``environment``."""
    return Device(
        name=state.name,
        uuid=state.uuid,
        driver=state.driver,
        compute_capability=state.compute_capability,
        multiprocessors=int(str(environment.get("multiprocessors", 0))),
        memory=state.memory,
        l2=int(str(environment.get("l2", 0))),
    )


def _versions(session: Session) -> tuple[tuple[str, str], ...]:
    tools = (
        ("compute-sanitizer", session.sanitizer, sanitizer.version_argv, sanitizer.parse_version),
        ("ncu", session.ncu, ncu.version_argv, ncu.parse_version),
    )

    def ask(name: str, tool: Path, argv: Callable[[Path], tuple[str, ...]], parse: Callable[[str], str]) -> tuple[str, str]:
        return name, parse(process.run(argv(tool), logs=session.scratch, name=f"{name}-version", timeout=60).text())

    with ThreadPoolExecutor(len(tools)) as pool:  # each takes a second to start
        asked = [pool.submit(ask, name, tool, argv, parse) for name, tool, argv, parse in tools if tool is not None]
        return tuple(future.result() for future in asked)
