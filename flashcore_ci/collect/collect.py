"""The order of a collection, and the table of its collectors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import lock, ncu, nvml, process, sanitizer
from flashcore_ci.adapters.nvml import State
from flashcore_ci.collect import comparison, correctness, profile, timing
from flashcore_ci.collect import sanitizer as checks
from flashcore_ci.collect.child import Ended, Go
from flashcore_ci.collect.context import Context
from flashcore_ci.collect.machine import Machine, illness
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import BuildEvidence, Device, Evidence, Observation, Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind

AT_ONCE = {Kind.CORRECTNESS: correctness.collect, Kind.SANITIZER: checks.collect}
"""Collectors whose readings do not depend on who else computes: they run together. Profile and timing have the GPU alone."""

LIVE_KINDS = (Kind.CORRECTNESS, Kind.SANITIZER, Kind.PROFILE, Kind.TIMING)
WORKER = ("python", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opponents:
    """The base of a comparison: its checkout under head's subjects, its libraries, plan and builds; and when it is enough."""

    root: Path
    libraries: Path
    plan: Plan
    builds: tuple[BuildEvidence, ...]
    looks: tuple[int, ...]
    final: comparison.Final

    def context(self, head: Context) -> Context:
        """Head's, in the base's checkout."""
        return replace(head, root=self.root, libraries=self.libraries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What the steps gave, and the facts about the machine that the probe brought along."""

    observations: tuple[Observation, ...]
    environment: dict[str, object]


def collect(plan: Plan, builds: tuple[BuildEvidence, ...], context: Context, opponents: Opponents | None = None) -> Evidence:
    """Measure all that the plan asks of this GPU, once it is free; a run that is stopped keeps what it has.

    ``opponents`` has the base that comparisons are with; without one, none are made.
    CannotCollectError when there is no GPU, tool or torch, or the GPU stays locked. What a kernel does wrong is evidence.
    """
    state = nvml.read(context.gpu)
    session = Session(context=context, plan=plan, builds=builds, uuid=state.uuid, versions=_versions(context))
    _refuse_absent_tools(session)
    with (
        lock.hold(lock.path(context.lock_dir, state.uuid), timeout=context.lock_timeout, waiting=context.progress),
        nvml.locked_clocks(state.uuid, context.lock_clocks),
    ):
        collected = _measure(Machine(session=session))
        notes = _notes(nvml.unnamed_users(state.users))
        provenance = _provenance(session, state, collected.environment)
        compared = _compare(Machine(session=session), opponents, provenance) if opponents is not None else ()
    observations = (*collected.observations, *compared)
    return Evidence(provenance=provenance, builds=builds, observations=observations, notes=notes)


def _compare(head: Machine, opponents: Opponents, provenance: Provenance) -> tuple[Observation, ...]:
    """Base and head in turns; on a GPU that others use too, nothing."""
    base = Machine(
        session=replace(
            head.session, context=opponents.context(head.session.context), plan=opponents.plan, builds=opponents.builds
        )
    )
    ill = head.session.busy()
    if ill is None:
        opponent = comparison.Opponent(machine=base, looks=opponents.looks, final=opponents.final)
        compared = comparison.collect(head, opponent, provenance)
        ill = head.session.busy()
    return _without(head, Kind.COMPARISON, ill) if ill is not None else compared


def _measure(machine: Machine) -> Collected:
    """Probe, correctness and sanitizers together; then profile; then timing, whose first process starts early and waits."""
    session = machine.session
    go = Go(session.context.scratch / "go-profile")
    with ThreadPoolExecutor() as pool, _timer(machine) as timer:
        try:
            probed = pool.submit(machine.probe)
            session.context.progress("correctness and sanitizers")
            first = [pool.submit(collector, machine) for collector in AT_ONCE.values()]
            profiled = pool.submit(profile.collect, machine, go)
            timer.start(0, session.workloads(Kind.TIMING))
            observations = [observation for future in first for observation in future.result()]
            ended = probed.result()
            sick = illness(ended)
            if sick is not None and sick.code is Code.DEVICE_UNHEALTHY:  # also what it seemed to compute rightly is worth nothing
                observations = [replace(seen, readings=(), findings=(), missing=sick) for seen in observations]
            ill = sick or session.busy()
            if ill is None:
                session.context.progress("profile")
                go.say(session.seconds(Kind.PROFILE))
                observations += profiled.result()
                ill = session.busy()
            else:
                observations += _without(machine, Kind.PROFILE, ill)
            timed = () if ill else timing.collect(machine, timer)
            ill = ill or session.busy()
            observations += _without(machine, Kind.TIMING, ill) if ill else timed
            return _collected(observations, ended)
        finally:
            go.never()


@contextlib.contextmanager
def _timer(machine: Machine) -> Iterator[timing.Timer]:
    timer = timing.Timer(machine)
    try:
        yield timer
    finally:
        timer.close()


def _collected(observations: list[Observation], ended: Ended) -> Collected:
    return Collected(observations=tuple(observations), environment=ended.environment)


def _without(machine: Machine, kind: Kind, missing: Missing) -> tuple[Observation, ...]:
    """Observations that say why nothing was measured."""
    session = machine.session
    return tuple(session.observation(kind, workload, missing=missing) for workload in session.workloads(kind))


def _refuse_absent_tools(session: Session) -> None:
    """Say now, and not after minutes, what is not here."""
    if session.workloads(Kind.SANITIZER) and session.context.sanitizer is None:
        raise CannotCollectError("compute-sanitizer is not here", fix="flashcore-ci toolchain install")
    if session.workloads(Kind.PROFILE):
        if session.context.ncu is None:
            raise CannotCollectError("ncu (Nsight Compute) is not here", fix="install Nsight Compute; it is not on PyPI")
        ncu.import_reader(session.context.ncu)


def _notes(unseen: tuple[nvml.User, ...]) -> tuple[str, ...]:
    if not unseen:
        return ()
    pids = ", ".join(str(user.pid) for user in unseen)
    return (f"cannot tell who else uses the GPU: process {pids} is out of sight, perhaps in another container",)


def _provenance(session: Session, state: State, environment: dict[str, object]) -> Provenance:
    return replace(
        session.context.origin,
        device=device_of(state, environment),
        tools=tuple(sorted((*session.versions, *((name, str(environment[name])) for name in WORKER if name in environment)))),
        clock_policy=session.context.clock_policy,
    )


def device_of(state: State, environment: dict[str, object]) -> Device:
    """The GPU in ``state``, with what only a worker knows of it: ``environment`` is the probe's."""
    return Device(
        name=state.name,
        uuid=state.uuid,
        driver=state.driver,
        compute_capability=state.compute_capability,
        multiprocessors=int(str(environment.get("multiprocessors", 0))),
        memory=state.memory,
        l2=int(str(environment.get("l2", 0))),
    )


def _versions(context: Context) -> tuple[tuple[str, str], ...]:
    """Name and version of each tool that is here, as it gives it itself."""
    asked = (
        ("compute-sanitizer", context.sanitizer, sanitizer.version_argv, sanitizer.parse_version),
        ("ncu", context.ncu, ncu.version_argv, ncu.parse_version),
    )
    return tuple(
        (name, parse(process.run(argv(tool), logs=context.scratch, name=f"{name}-version", timeout=60).text()))
        for name, tool, argv, parse in asked
        if tool is not None
    )
