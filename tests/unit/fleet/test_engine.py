"""The options of ``collect`` that every engine passes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flashcore_ci.cli import collect, fleet
from flashcore_ci.fleet.engine import Task, collect_options, time_limit
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.request import Request

SHARD = ShardFile(
    suite="s", suite_file="s.toml", plan="f" * 64, commit="1" * 40, index=1, count=1,
    units=(Unit(kind=Kind.TIMING, workload="w"),), parts=("f" * 64,),
    needs=Needs(gpus=1, architecture="", exclusive=True, seconds=60.0),
)  # fmt: skip
TASK = Task(shard=SHARD, file=Path("/tmp/shard.json"), out=Path("/tmp/run-1"))
VALUES: dict[str, Any] = {
    "suite": Path("/tmp/suite.toml"),
    "build": Path("/tmp/build"),
    "toolchain": "13.5",
    "allow_process": ("Xorg", "-odd name"),
    "lock_timeout": 7200.0,
    "jobs": 3,
}
OF_THE_COMMAND = {"out", "only", "as_json"}
"""The shard file names what is measured and the task where. The command alone prints the result."""


def names(command: Any) -> set[str]:
    return {option.name for option in command.params}


def test_each_option_that_both_commands_have_reaches_the_shard() -> None:
    assert names(fleet.run) & names(collect.command) == VALUES.keys() | OF_THE_COMMAND
    request = Request(out=Path("out"), environ={}, **VALUES)
    context = collect.command.make_context("collect", list(map(str, collect_options(request, TASK))))
    assert {name: context.params[name] for name in VALUES} == VALUES
    assert (context.params["shard"], context.params["out"]) == (TASK.file, TASK.out)


@pytest.mark.parametrize(("lock_timeout", "seconds"), [(0.0, 2400.0), (7200.0, 7800.0), (float("inf"), 605_400.0)])
def test_a_task_may_wait_as_long_as_its_lock(lock_timeout: float, seconds: float) -> None:
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={}, lock_timeout=lock_timeout)
    assert time_limit(request, TASK) == seconds
