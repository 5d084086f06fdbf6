"""What the launchers write for others: a job script and a matrix."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.fleet import ci, local
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


def test_the_matrix_is_one_line_of_json() -> None:
    text = ci.matrix((SHARD,), (Path("runs/shards/shard-001-abc.json"),))
    assert json.loads(text) == {"include": [{"name": "shard 1 of 1", "shard": "shard-001-abc.json", "minutes": 35}]}
    assert "\n" not in text


def test_a_matrix_has_githubs_limit() -> None:
    with pytest.raises(ValueError, match="at most 256 jobs"):
        ci.matrix((SHARD,) * 257, (Path("x"),) * 257)


@pytest.mark.parametrize(("xids", "lost"), [((), ""), ((13, 31, 43, 45), ""), ((31, 79), "Xid 79: GPU has fallen off the bus")])
def test_only_the_hardwares_own_errors_count(xids: tuple[int, ...], lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.nvml, "read", lambda _: None)
    assert local.hardware_failure("GPU-1", xids) == lost


def test_a_driver_that_does_not_answer_is_a_lost_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise CannotCollectError("the NVIDIA driver does not answer: GPU is lost")

    monkeypatch.setattr(local.nvml, "read", refuse)
    assert local.hardware_failure("GPU-1", ()) == "the NVIDIA driver does not answer: GPU is lost"
