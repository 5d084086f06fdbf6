"""The job script of an array job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.fleet.engine import Task
from flashcore_ci.fleet.slurm import SlurmEngine
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.request import Request

SHARD = ShardFile(
    suite="tiny",
    suite_file="gates/tiny.toml",
    plan="f" * 64,
    commit="1" * 40,
    index=1,
    count=1,
    units=(Unit(kind=Kind.TIMING, workload="big"),),
    parts=("f" * 64,),
    needs=Needs(gpus=1, architecture="", exclusive=True, seconds=600.0),
)
TASK = Task(shard=SHARD, file=Path("/tmp/x y/shard-001.json"), out=Path("/tmp/x y/run-1"))
REQUEST = Request(suite=Path("gates/tiny.toml"), out=Path("/tmp/run"), environ={}, checkout=Path("/tmp/it's here"))


def script(*tasks: Task, aside: tuple[str, ...] = ()) -> str:
    engine = SlurmEngine(request=REQUEST, count=2, options=("--gres=gpu:1",), logs=Path("/tmp/logs"), aside=list(aside))
    return engine.script(tasks or (TASK,))


def test_the_script_quotes_every_path() -> None:
    text = script()
    assert "'/tmp/x y/shard-001.json'" in text
    assert "cd '/tmp/it'\"'\"'s here' || exit 4" in text
    assert "#SBATCH --gres=gpu:1\n" in text
    assert "#SBATCH --time=130\n" in text


def test_nodes_that_failed_are_left_out() -> None:
    assert "#SBATCH --exclude=node1,node2\n" in script(replace(TASK, avoid=("node2",)), aside=("node1",))
    assert "--exclude" not in script()


def test_a_shard_for_several_gpus_is_refused_before_anything_runs(tmp_path: Path) -> None:
    engine = SlurmEngine(request=REQUEST, count=2, options=(), logs=tmp_path / "logs")
    pair = replace(SHARD, needs=replace(SHARD.needs, gpus=2))
    with pytest.raises(CannotCollectError, match="shard 1 needs 2 GPUs") as caught:
        engine.measure([TASK, replace(TASK, shard=pair)])
    assert "collect --shard" in caught.value.fix
    assert not (tmp_path / "logs").exists()
