"""What a launcher does: run shards somewhere, and say how each ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import flashcore_ci
from flashcore_ci.model.shard import ShardFile
from flashcore_ci.run.base.bar import libraries_of
from flashcore_ci.run.request import Request

if TYPE_CHECKING:
    from flashcore_ci.fleet.ahead import Ahead

COLLECT = (sys.executable, "-P", "-m", "flashcore_ci.cli.main", "collect")
"""This tool's own ``collect``, with ``import_variables``."""
SPARE_SECONDS, LONGEST_WAIT = 1800.0, 7 * 86_400.0
"""How much longer than estimated a shard may take. Each of its processes has its own limit."""
TIMES = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A shard ``file`` to measure into the run folder ``out``, for the ``number``-th time, not on the GPUs in ``avoid``, of which ``broken`` failed.

    ``given`` holds the plan and the builds that this gate has checked, for a shard of its own machine.
    """

    shard: ShardFile
    file: Path
    out: Path
    number: int = 1
    avoid: tuple[str, ...] = ()
    broken: int = 0
    given: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a task ended on ``gpu`` (empty: on none, as too few are left). ``lost``: why the machine ended it, by its own signs. ``failure``: any other reason.

    ``is_broken``: the machine failed, and was not only taken away.
    """

    task: Task
    gpu: str
    lost: str = ""
    is_broken: bool = True
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What the user chose: ``count`` shards at a time, and the scheduler's own ``options``. ``ahead``: processes that wait already."""

    count: int = 1
    options: tuple[str, ...] = ()
    ahead: Ahead | None = None


class Engine(Protocol):
    """A launcher. Another scheduler is one more module with ``make``, and a line in ``run.ENGINES``."""

    verified: bool
    """Whether its bundles are one live run, which only this run wrote."""
    left_out: Mapping[str, str]
    """GPUs that an earlier run put aside, and why. It does not use them."""

    def slots(self) -> int:
        """Return how many shards to cut."""

    def measure(self, tasks: Sequence[Task]) -> Sequence[Ended]:
        """Run all tasks, and return how each ended. CannotCollectError if nothing can run."""

    def put_aside(self, gpu: str) -> None:
        """Use this GPU no more."""

    def close(self) -> None:
        """End what still waits."""


def collect_options(request: Request, task: Task) -> list[str | Path]:
    """Return the options of ``collect`` for a task, but those that choose its GPUs."""
    options: list[str | Path] = ["--suite", request.suite, "--shard", task.file, "--out", task.out]
    options += ["--build", request.binaries.absolute(), "--toolchain", request.toolchain]
    options += ["--lock-timeout", str(request.lock_timeout)]
    options += [f"--allow-process={name}" for name in request.allow_process]
    return options + ([] if request.jobs is None else ["--jobs", str(request.jobs)])


def time_limit(request: Request, task: Task) -> float:
    """Return the seconds that a task may take. It may first wait for another gate on its GPU."""
    return TIMES * task.shard.needs.seconds + min(max(SPARE_SECONDS, request.lock_timeout), LONGEST_WAIT)


def import_variables(root: Path) -> dict[str, str]:
    """Return the variables with which ``COLLECT`` imports this tool, and nothing of the checkout that it judges."""
    here = str(Path(flashcore_ci.__file__).resolve().parents[1])
    return {"PYTHONPATH": os.pathsep.join((here, *libraries_of(sys.path, root))), "PYTHONSAFEPATH": "1"}
