"""Measure a plan with an engine: cut it, run every shard, try again where the machine failed, and join the results."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashcore_ci.bounded.values import shorten
from flashcore_ci.collect.comparison import Base
from flashcore_ci.fleet.engine import Ended, Engine, Task
from flashcore_ci.judge.judge import Source, workloads_without_base
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError, EvidenceError
from flashcore_ci.model.evidence import UNVERIFIED, Attempt, BuildEvidence, Evidence, Observation, Provenance, Shard
from flashcore_ci.model.identity import workload_identity
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.shard import Unit
from flashcore_ci.model.verdict import Origin
from flashcore_ci.run import aside, handover, host, merge, shards
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run.measuring import able
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store import shard_files
from flashcore_ci.store.run import Run, encode_plan, write_run

MAX_TRIES = 3
"""A shard whose machine failed is tried twice more."""
RUN = "run-{}"
FATAL = 2
"""GPUs that a shard may lose before its code is to blame, and failures after which a GPU is put aside."""


@dataclass(slots=True)
class Fleet:
    """The state of one measurement."""

    engine: Engine
    progress: Progress
    home: Path
    done: list[merge.Part] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    blamed: list[tuple[Task, Missing]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    losses: Counter[str] = field(default_factory=Counter)
    lost: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The GPU that failed under a shard, and why, by the shard's index."""
    kept: set[int] = field(default_factory=set)
    dirty: bool = False
    measured: Callable[[], object] = bool

    def run(self, tasks: Sequence[Task]) -> None:
        """Run all tasks, and those again that a machine lost. CannotCollectError if all fail for another reason."""
        while tasks:
            self.progress(f"measuring {len(tasks)} shards")
            ended = self._measure(tasks)
            self.measured()
            failed = [one for one in ended if one.failure]
            if failed and len(failed) == len(ended) and not (self.done or self.blamed):
                message = f"shard {failed[0].task.shard.index} on {failed[0].gpu}: {failed[0].failure}"
                raise CannotCollectError(message, fix="run `flashcore-ci gate --gpu` on that GPU alone to see why")
            tasks = [task for one in ended for task in self._settle(one)]

    def leave_out_different(self) -> None:
        """Keep the largest group of results from equal machines. The other shards are lost, not the whole run."""
        self.dirty = any(part.run.evidence.provenance.dirty for part in self.done)  # the others may have read the same files
        self.done, different = merge.divide(self.done)
        reasons = {index: shorten(why) for index, why in different.items()}
        self.notes += (f"shard {index} is lost: {why}" for index, why in reasons.items())
        self.attempts = [replace(one, reason=one.reason or reasons.get(one.shard_index or 0, "")) for one in self.attempts]

    def remember(self) -> None:
        """Count the GPUs that failed in this run with those of earlier ones. Under code that another GPU measured it was the GPU."""
        for gpu, why in (lost for index, lost in self.lost.items() if index in self.kept):
            if self.losses[gpu] < FATAL and aside.failed(self.home, gpu, why):
                self.notes.append(f"{gpu} failed in an earlier run, too, and was put aside: {why}")

    def _measure(self, tasks: Sequence[Task]) -> Sequence[Ended]:
        """Let the engine run the tasks. If it cannot, they are lost, and what earlier rounds found stays."""
        try:
            return self.engine.measure(tasks)
        except CannotCollectError as error:
            if not (self.done or self.blamed):
                raise
            return [Ended(task=task, gpu="", lost=f"cannot repeat it without {', '.join(task.avoid)}: {error}") for task in tasks]

    def _settle(self, ended: Ended) -> Iterator[Task]:
        """Keep a result, or yield the task that repeats a lost one. Its files are not used."""
        task = ended.task
        if not ended.gpu:
            self._give_up(ended, ended.lost)
            return
        why = ended.failure or ended.lost or self._keep(task)
        self.attempts.append(Attempt(number=task.number, gpu=ended.gpu, reason=shorten(why), shard_index=task.shard.index))
        if ended.failure:
            self._give_up(ended, f"{ended.gpu}: {ended.failure}")
        if ended.failure or not ended.lost:
            return
        self.progress(f"shard {task.shard.index} lost {ended.gpu}: {ended.lost}")
        if ended.is_broken:
            self._count(ended)
        broken = task.broken + (ended.is_broken and ended.gpu not in task.avoid)
        if broken >= FATAL:
            self.blamed.append((task, Missing(code=Code.LOST_GPU, message=f"shard {task.shard.index} lost {FATAL} GPUs")))
        elif task.number < MAX_TRIES:
            out = task.out.with_name(f"{task.out.name}-again-{task.number}")
            avoid = tuple(dict.fromkeys((*task.avoid, ended.gpu)))
            yield replace(task, number=task.number + 1, avoid=avoid, broken=broken, out=out)
        else:
            self._give_up(ended, ended.lost)

    def _give_up(self, ended: Ended, why: str) -> None:
        self.notes.append(f"shard {ended.task.shard.index} is lost: {shorten(why)}")

    def _count(self, ended: Ended) -> None:
        self.losses[ended.gpu] += 1
        self.lost[ended.task.shard.index] = ended.gpu, ended.lost
        if self.losses[ended.gpu] == FATAL:
            self.engine.put_aside(ended.gpu)
            aside.note(self.home, ended.gpu, ended.lost)
            self.notes.append(f"{ended.gpu} failed {FATAL} times and was put aside: {ended.lost}")

    def _keep(self, task: Task) -> str:
        """Keep the result, or return why not."""
        try:
            parts = merge.read([task.out])
            for part in parts:
                merge.demand_shard(part, task.shard)
            self.done += parts
            self.kept.add(task.shard.index)
        except EvidenceError as error:
            why = shorten(str(error).splitlines()[0])
            self.notes.append(f"shard {task.shard.index} is lost: {why}")
            if isinstance(error, merge.ForeignUnitError):
                self.blamed.append((task, Missing(code=Code.FOREIGN_UNIT, message=why)))
            return why
        return ""


def measure(
    engine: Engine,
    plan: Plan,
    builds: tuple[BuildEvidence, ...],
    *,
    request: Request,
    progress: Progress,
    scratch: Path,
    base: Base | None = None,
    durations: Mapping[Unit, float] | None = None,
) -> Source:
    """Measure ``plan`` on all machines of ``engine``, compared with ``base``, and write the run folder ``request.out``.

    ``durations``: those of recorded runs (None: not read yet).
    """
    left_out = [f"{gpu} was put aside by an earlier run: {why}" for gpu, why in engine.left_out.items()]
    if not engine.slots():
        raise CannotCollectError(f"no GPU is left: {'; '.join(left_out)}", fix="flashcore-ci doctor")
    found = shards.cut_plan(plan, request, gpus=engine.slots(), durations=durations)
    files = shard_files.write(found, scratch / host.SHARDS)
    given = handover.write(plan, builds, scratch.absolute()) if engine.verified and base is None else None
    tasks = [
        Task(shard=shard, file=file, out=scratch / RUN.format(shard.index), given=given)
        for shard, file in zip(found, files, strict=True)
    ]
    with ThreadPoolExecutor(1) as pool:
        here: list[Future[Provenance]] = []  # after each round. Git takes a third of a second, while the results are read
        fleet = Fleet(
            engine=engine,
            progress=progress,
            home=request.settings.home,
            notes=left_out,
            measured=lambda: here.append(pool.submit(host.provenance, request)),
        )
        fleet.run(tasks)
        fleet.remember()
        fleet.leave_out_different()
        run = (
            merge.merge(fleet.done, verified=engine.verified)
            if fleet.done
            else _only_blame(fleet, plan, builds, here[-1].result())
        )
        merge.put_files(run, request.out)
    evidence = _joined(fleet, run, plan, builds, here[-1].result())
    without = workloads_without_base(plan, builds, (Source(origin=Origin(kind="live"), evidence=evidence),))
    write_run(request.out, plan if base is None else able(plan, base, without), evidence)
    origin = recorded.where_and_when(evidence.provenance)
    return recorded.live_source(origin, evidence, request.out)


def remove_runs(scratch: Path) -> None:
    """Remove the shards' runs."""
    for folder in scratch.glob(RUN.format("*")):
        shutil.rmtree(folder, ignore_errors=True)


def _only_blame(fleet: Fleet, plan: Plan, builds: tuple[BuildEvidence, ...], here: Provenance) -> Run:
    """Make a run without any result. CannotCollectError unless code is to blame."""
    if not fleet.blamed:
        raise CannotCollectError(shorten(f"no shard came back: {'; '.join(fleet.notes)}"), fix="flashcore-ci doctor")
    cut = fleet.blamed[0][0].shard
    digest = hashlib.sha256(encode_plan(plan)).hexdigest()
    shard = Shard(index=UNVERIFIED, count=cut.count, plan=digest, units=(), parts=cut.parts)
    return Run(plan=plan, evidence=Evidence(provenance=here, builds=builds, observations=(), shard=shard))


def _joined(fleet: Fleet, run: Run, plan: Plan, builds: tuple[BuildEvidence, ...], here: Provenance) -> Evidence:
    provenance = run.evidence.provenance
    changed = fleet.dirty or here.dirty or here.commit != provenance.commit
    provenance = replace(provenance, dirty=changed or provenance.dirty)  # changes may be gone by now
    blamed = (one for task, why in fleet.blamed for one in _blame(task, why, plan, builds))
    return replace(
        run.evidence,
        provenance=provenance,
        observations=(*run.evidence.observations, *blamed),
        shard=None if fleet.engine.verified else _with_units(run.evidence.shard, fleet.blamed),
        attempts=tuple(fleet.attempts),  # by number, then by shard
        notes=(*run.evidence.notes, *fleet.notes),
    )


def _with_units(shard: Shard | None, blamed: Sequence[tuple[Task, Missing]]) -> Shard | None:
    more = (unit for task, _ in blamed for unit in task.shard.units)
    return shard and replace(shard, units=tuple(dict.fromkeys((*shard.units, *more))))


def _blame(task: Task, missing: Missing, plan: Plan, builds: tuple[BuildEvidence, ...]) -> Iterator[Observation]:
    """Give every unit of the shard this reason."""
    workloads = {workload.id: workload for workload in plan.workloads}
    built = {build.subject: build for build in builds}
    for unit in task.shard.units:
        workload = workloads[unit.workload]
        if (build := built.get(workload.subject)) is not None:
            problem = plan.description(workload.subject).problem(workload.id)
            identity = workload_identity(unit.kind, workload, problem, build, plan.protocol)
            if identity is not None:
                yield Observation(kind=unit.kind, target=workload.id, identity=identity, missing=missing)
