"""All GPUs of this machine: one ``collect`` per GPU at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import nvml, process
from flashcore_ci.fleet.engine import COLLECT, Ended, Task, import_variables
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.run.request import Request

SPARE_SECONDS = 1800.0
"""How much longer than estimated a shard may take. Each of its processes has its own limit."""
TIMES = 10.0


@dataclass(slots=True)
class LocalEngine:
    """The GPUs of this machine, by UUID."""

    request: Request
    gpus: list[str]
    logs: Path
    verified: bool = True

    def slots(self) -> int:
        """Return the number of usable GPUs."""
        return len(self.gpus)

    def put_aside(self, gpu: str) -> None:
        """Use this GPU no more."""
        self.gpus.remove(gpu)

    def measure(self, tasks: Sequence[Task]) -> Sequence[Ended]:
        """Measure each task on the next free GPU that it may use."""
        with ThreadPoolExecutor(max(1, len(self.gpus))) as pool:
            return [ended for part in pool.map(self._measure_on, self.gpus, self._dealt(tasks)) for ended in part]

    def _dealt(self, tasks: Sequence[Task]) -> Iterator[list[Task]]:
        """Deal the tasks to the GPUs in turn. CannotCollectError if a task may use none."""
        hands: dict[str, list[Task]] = {gpu: [] for gpu in self.gpus}
        for task in tasks:
            allowed = [gpu for gpu in self.gpus if gpu not in task.avoid]
            if not allowed:
                why = f"shard {task.shard.index} lost {', '.join(task.avoid) or 'every GPU'}, and no other is left"
                raise CannotCollectError(why, fix="flashcore-ci doctor")
            hands[min(allowed, key=lambda gpu: len(hands[gpu]))].append(task)
        yield from hands.values()

    def _measure_on(self, gpu: str, tasks: list[Task]) -> list[Ended]:
        return [self._measure_one(gpu, task) for task in tasks]

    def _measure_one(self, gpu: str, task: Task) -> Ended:
        name = f"shard-{task.shard.index}-{task.number}"
        seconds = TIMES * task.shard.needs.seconds + SPARE_SECONDS
        with nvml.xids(gpu) as seen:
            root = self.request.root
            variables = import_variables(root)
            done = process.run(self._argv(gpu, task), logs=self.logs, name=name, timeout=seconds, cwd=root, variables=variables)
        if process.stopping():
            raise InterruptedRunError("the run was stopped before it was done")
        lost = hardware_failure(gpu, seen)
        if lost or (done.returncode == 0 and not done.timed_out):
            return Ended(task=task, gpu=gpu, lost=lost)
        lines = [line for line in done.last_lines() if line.startswith("flashcore-ci: ")]
        why = "did not end in time" if done.timed_out else f"exit status {done.returncode}"
        return Ended(task=task, gpu=gpu, failure=lines[-1].removeprefix("flashcore-ci: ") if lines else why)

    def _argv(self, gpu: str, task: Task) -> list[str | Path]:
        request = self.request
        options: list[str | Path] = ["--suite", request.suite, "--shard", task.file, "--out", task.out, "--gpu", gpu]
        options += ["--build", request.binaries.absolute(), "--toolchain", request.toolchain]
        options += ["--lock-timeout", str(request.lock_timeout)]
        allowed = [word for name in request.allow_process for word in ("--allow-process", name)]
        return [*COLLECT, *options, *allowed]


def hardware_failure(gpu: str, xids: Sequence[int]) -> str:
    """Return why the GPU itself failed, or "". A kernel's own faults do not count."""
    broken = [xid for xid in xids if xid in nvml.HARDWARE_XIDS]
    if broken:
        return f"Xid {broken[0]}: {nvml.HARDWARE_XIDS[broken[0]]}"
    try:
        nvml.read(gpu)
    except CannotCollectError as error:
        return str(error)
    return ""
