"""All GPUs of this machine: one ``collect`` at a time on each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from flashcore_ci.adapters import nvml, process
from flashcore_ci.fleet.ahead import Ahead
from flashcore_ci.fleet.engine import COLLECT, Ended, EngineOptions, Task, collect_options, import_variables, time_limit
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.run import aside
from flashcore_ci.run.heartbeat import SILENT_SECONDS, Listener
from flashcore_ci.run.request import Request


@dataclass(slots=True)
class LocalEngine:
    """The GPUs of this machine, by UUID."""

    request: Request
    gpus: list[str]
    logs: Path
    verified: bool = True
    ahead: Ahead | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def slots(self) -> int:
        """Return the number of usable GPUs."""
        return len(self.gpus)

    def close(self) -> None:
        """End the processes that still wait for a shard."""
        if self.ahead is not None:
            self.ahead.close()

    def put_aside(self, gpu: str) -> None:
        """Use this GPU no more."""
        self.gpus.remove(gpu)

    def measure(self, tasks: Sequence[Task]) -> Sequence[Ended]:
        """Measure each task on the next free GPUs that it may use. No GPU has two tasks at a time."""
        with ThreadPoolExecutor(max(1, len(tasks))) as pool:
            return list(pool.map(self._measure_one, tasks))

    def _allowed(self, task: Task) -> list[str]:
        return [gpu for gpu in self.gpus if gpu not in task.avoid]

    @contextlib.contextmanager
    def _take(self, task: Task) -> Iterator[tuple[str, ...]]:
        """Wait for as many GPUs as the task needs, or all that it may use."""
        allowed = self._allowed(task)
        count = min(task.shard.needs.gpus, len(allowed))
        with self._changed:
            self._changed.wait_for(lambda: len(set(allowed) - self._busy) >= count)
            taken = tuple(gpu for gpu in allowed if gpu not in self._busy)[:count]
            self._busy.update(taken)
        try:
            yield taken
        finally:
            with self._changed:
                self._busy.difference_update(taken)
                self._changed.notify_all()

    def _measure_one(self, task: Task) -> Ended:
        name = f"shard-{task.shard.index}-{task.number}"
        if len(self._allowed(task)) < (task.shard.needs.gpus if task.avoid else 1):
            return Ended(task=task, gpu="", lost=f"too few GPUs are left without {', '.join(task.avoid) or 'those put aside'}")
        with self._take(task) as gpus, contextlib.ExitStack() as stack:
            if dead := [(gpu, why) for gpu in gpus if (why := hardware_failure(gpu, ()))]:  # not by this code
                return Ended(task=task, gpu=dead[0][0], lost=f"before the shard began: {dead[0][1]}", is_broken=False)
            seen = {gpu: stack.enter_context(nvml.xids(gpu)) for gpu in gpus}
            beat = Listener(self.logs / f"{name}.beat")
            argv = [*self._argv(gpus, task), "--heartbeat", beat.file.absolute()]

            def should_stop() -> bool:
                return beat.is_silent() or any(nvml.HARDWARE_XIDS.keys() & set(xids) for xids in seen.values())

            why = self._run(name, argv, time_limit(self.request, task), should_stop)
            is_silent = bool(why) and beat.is_silent()
        if process.stopping():
            raise InterruptedRunError("the run was stopped before it was done")
        failures = ((gpu, hardware_failure(gpu, xids)) for gpu, xids in seen.items())
        gpu, lost = next((failure for failure in failures if failure[1]), (gpus[0], ""))
        if is_silent and not lost:
            return Ended(task=task, gpu=gpu, lost=f"no heartbeat for {SILENT_SECONDS:.0f} s", is_broken=False)
        return Ended(task=task, gpu=gpu, lost=lost, failure="" if lost else why)

    def _run(self, name: str, argv: Sequence[str | Path], seconds: float, should_stop: Callable[[], bool]) -> str:
        """Run a shard's process to its end, and return why it failed, or "". A driver may hold one that was killed."""
        root = self.request.root
        waiting = self.ahead.take() if self.ahead is not None else None
        try:
            done = waiting and waiting.run(argv, timeout=seconds, should_stop=should_stop)
            done = done or process.run(
                [*COLLECT[:-1], *argv],
                logs=self.logs,
                name=name,
                timeout=seconds,
                cwd=root,
                variables=import_variables(root),
                should_stop=should_stop,
            )
        except CannotCollectError as error:
            return str(error)
        if done.returncode == 0 and not done.timed_out:
            return ""
        lines = [line for line in done.last_lines() if line.startswith("flashcore-ci: ")]
        why = "did not end in time" if done.timed_out else f"exit status {done.returncode}"
        return lines[-1].removeprefix("flashcore-ci: ") if lines else why

    def _argv(self, gpus: tuple[str, ...], task: Task) -> list[str | Path]:
        given: list[str | Path] = [] if task.given is None else ["--given", task.given]
        options = [*collect_options(self.request, task), "--gpu", gpus[0], "--neighbours", ",".join(gpus[1:])]
        return [COLLECT[-1], *options, *given]


def make(request: Request, logs: Path, options: EngineOptions) -> LocalEngine:
    """Use all GPUs of one model, but those that an earlier run put aside."""
    ahead = options.ahead
    left_out = aside.among(request.settings.home, nvml.models)
    gpus = of_one_model(without=left_out)
    if ahead is None:
        ahead = Ahead(logs=logs / "ahead", root=request.root)
        ahead.start(len(gpus))
    return LocalEngine(request=request, gpus=gpus, logs=logs, ahead=ahead, left_out=left_out)


def of_one_model(without: Container[str] = ()) -> list[str]:
    """List the GPUs of the first one's model. Results of two models are not joined."""
    models = {uuid: model for uuid, model in nvml.models().items() if uuid not in without}
    return [uuid for uuid, model in models.items() if model == next(iter(models.values()))]


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
