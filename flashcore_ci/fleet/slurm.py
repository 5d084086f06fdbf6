"""A Slurm cluster: one array job per round. The nodes share the checkout, the tool and the folders."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashcore_ci.adapters import clock, process
from flashcore_ci.fleet.engine import COLLECT, Ended, EngineOptions, Task, collect_options, import_variables, time_limit
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.run import aside
from flashcore_ci.run.request import Request

UNKNOWN_NODE = "an unknown node"
POLL_SECONDS = 2.0
ANSWER_SECONDS = 60.0
UNANSWERED = 30
"""Polls in a row without an answer before the controller counts as lost."""
BROKEN = frozenset({"NODE_FAIL", "BOOT_FAIL"})
LOST = BROKEN | {"PREEMPTED"}
"""States that only the cluster gives. Measured code could cancel its own job, or set its deadline."""
ENDED = LOST | {"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT"}
FIELDS = "ArrayTaskID:12,State:32,RestartCnt:12,NodeList:200"
"""None of them holds a text of the job's owner."""
BY_ITSELF = "and code that is measured can do that, so it is not repeated. If it was you, run again"
SCRIPT = """#!/bin/bash
#SBATCH --job-name=flashcore-ci
#SBATCH --output={logs}/%A_%a.out
#SBATCH --time={minutes}
{options}
#SBATCH --no-requeue
cd {root} || exit 4
{variables}
gpu=${{CUDA_VISIBLE_DEVICES:-${{SLURM_JOB_GPUS:-0}}}}
case "$SLURM_ARRAY_TASK_ID" in
{cases}
esac
status=$?
echo "$status" > {logs}/"$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID".exit
exit "$status"
"""


@dataclass(slots=True)
class SlurmEngine:
    """``count`` jobs at a time, with the user's sbatch ``options``. Its bundles carry no signature."""

    request: Request
    count: int
    options: tuple[str, ...]
    logs: Path
    verified: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)

    def slots(self) -> int:
        """Return how many shards to cut."""
        return self.count

    def nodes(self) -> list[str]:
        """List the nodes of the cluster, once for each partition."""
        return self._slurm("sinfo", "--noheader", "--Node", "--format=%N").split()

    def put_aside(self, gpu: str) -> None:
        """Exclude this node from the next rounds."""
        self.aside.append(gpu)

    def close(self) -> None:
        """Do nothing: a job ends by itself."""

    def measure(self, tasks: Sequence[Task]) -> Sequence[Ended]:
        """Submit an array job, and follow it to its end. CannotCollectError if Slurm refuses."""
        for task in (task for task in tasks if task.shard.needs.gpus > 1):
            fix = f"give a job {task.shard.needs.gpus} GPUs, and run `flashcore-ci collect --shard` in it"
            raise CannotCollectError(
                f"shard {task.shard.index} needs {task.shard.needs.gpus} GPUs, and a job here has one", fix=fix
            )
        self.logs.mkdir(parents=True, exist_ok=True)
        script = self.logs / f"round-{tasks[0].number}.sh"
        script.write_text(self.script(tasks), encoding="utf-8")
        answer = self._slurm("sbatch", "--parsable", f"--array=0-{len(tasks) - 1}%{self.count}", str(script))
        job, _, cluster = answer.strip().partition(";")
        if not job.isdecimal():
            raise CannotCollectError(f"sbatch did not name a job: {job[:80]!r}", fix="run sbatch by hand with this script")
        states = self._follow(job, [f"--clusters={cluster}"] if cluster else [])
        return [self._ended(job, index, task, states.get(index, ())) for index, task in enumerate(tasks)]

    def script(self, tasks: Sequence[Task]) -> str:
        """Write the job script."""
        commands = [[*COLLECT, *collect_options(self.request, task)] for task in tasks]
        avoid = sorted({*self.left_out, *self.aside, *(node for task in tasks for node in task.avoid)} - {UNKNOWN_NODE})
        options = [*self.options, *([f"--exclude={','.join(avoid)}"] if avoid else [])]
        cases = [f'{index}) {shlex.join(map(str, argv))} --gpu "${{gpu%%,*}}" ;;' for index, argv in enumerate(commands)]
        return SCRIPT.format(
            logs=shlex.quote(str(self.logs)),
            minutes=int(max(time_limit(self.request, task) for task in tasks) / 60),
            options="\n".join(f"#SBATCH {option}" for option in options),
            root=shlex.quote(str(self.request.root.absolute())),
            variables="\n".join(
                f"export {name}={shlex.quote(value)}" for name, value in import_variables(self.request.root).items()
            ),
            cases="\n".join(cases),
        )

    def _follow(self, job: str, place: Sequence[str]) -> dict[int, Sequence[str]]:
        """Wait until every task has ended, and return the last state, restarts and node of each. A stopped run leaves the job."""
        unanswered = 0
        states: dict[int, Sequence[str]] = {}
        while True:
            try:
                options = ("--noheader", "--array", "--states=all", f"--Format={FIELDS}", *place)
                shown = self._slurm("squeue", *options, "--jobs", job)
                lines = [line for line in map(str.split, shown.splitlines()) if line[1:] and line[0].isdecimal()]
                states |= {int(line[0]): line[1:] for line in lines}
                unanswered = 0 if lines else unanswered + 1
                if unanswered >= UNANSWERED or (lines and all(line[1] in ENDED for line in lines)):
                    return states
            except CannotCollectError as error:
                if "Invalid job id" in str(error):
                    return states
                unanswered += 1
                if unanswered >= UNANSWERED:
                    raise
            if process.stopping():
                raise InterruptedRunError(f"the run was stopped, and the job may still run: scancel {' '.join([*place, job])}")
            clock.sleep(POLL_SECONDS)

    def _ended(self, job: str, index: int, task: Task, last: Sequence[str]) -> Ended:
        state, restarts, node = (*last, *("UNKNOWN", "", UNKNOWN_NODE)[len(last) :])[:3]
        status = process.read_text(self.logs / f"{job}_{index}.exit").strip()
        if restarts.strip("0"):
            return Ended(task=task, gpu=node, failure=f"Slurm ran the job again, {BY_ITSELF}")
        if status == "0":
            return Ended(task=task, gpu=node)
        if state in LOST:
            is_broken = state in BROKEN and node != UNKNOWN_NODE  # two failures without a name may be of one node
            return Ended(task=task, gpu=node, lost=f"Slurm ended the job: {state}", is_broken=is_broken)
        if state == "CANCELLED":
            return Ended(task=task, gpu=node, failure=f"the job was cancelled, {BY_ITSELF}")
        lines = [
            line for line in process.read_text(self.logs / f"{job}_{index}.out").splitlines() if line.startswith("flashcore-ci: ")
        ]
        why = lines[-1].removeprefix("flashcore-ci: ") if lines else f"exit status {status or 'unknown'}, state {state}"
        return Ended(task=task, gpu=node, failure=why)

    def _slurm(self, *argv: str) -> str:
        """Run a command of Slurm. CannotCollectError if it fails."""
        done = process.run(argv, logs=self.logs, name=argv[0], timeout=ANSWER_SECONDS)
        if done.returncode == 0 and not done.timed_out:
            return done.text()
        said = (done.error_text().strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise CannotCollectError(f"{argv[0]}: {said[:200]}", fix=f"run `{argv[0]}` by hand on this machine")


def make(request: Request, logs: Path, options: EngineOptions) -> SlurmEngine:
    """Use the cluster without the nodes that an earlier run put aside. sbatch refuses the name of another cluster's node."""
    engine = SlurmEngine(request=request, count=options.count, options=options.options, logs=logs)
    engine.left_out = aside.among(request.settings.home, engine.nodes)
    return engine
