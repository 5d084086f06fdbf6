"""The job script of an array job, and how its end is read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.fleet import slurm as module
from flashcore_ci.fleet.engine import Ended, EngineOptions, Task
from flashcore_ci.fleet.slurm import SlurmEngine
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import aside
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


def test_the_job_honours_the_options_of_the_command() -> None:
    request = replace(REQUEST, allow_process=("Xorg", "-odd name"), lock_timeout=7200.0, jobs=4)
    text = SlurmEngine(request=request, count=1, options=(), logs=Path("/tmp/logs")).script([TASK])
    (case,) = (line for line in text.splitlines() if line.startswith("0) "))
    words = shlex.split(case)
    assert {"--allow-process=Xorg", "--allow-process=-odd name"} <= set(words)
    assert [words[words.index(name) + 1] for name in ("--lock-timeout", "--jobs")] == ["7200.0", "4"]


def test_nodes_that_failed_are_left_out() -> None:
    assert "#SBATCH --exclude=node1,node2\n" in script(replace(TASK, avoid=("node2",)), aside=("node1",))
    assert "--exclude" not in script()


def test_nodes_that_an_earlier_run_put_aside_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sbatch refuses every job that excludes a node it does not know, as one of another cluster with the same home."""
    now: list[float] = [0.0]
    monkeypatch.setattr(aside.clock, "wall", lambda: next((tmp_path / "aside").iterdir()).stat().st_mtime + now[0])
    asked: list[tuple[str, ...]] = []

    def slurm(_: SlurmEngine, *argv: str) -> str:
        asked.append(argv)
        return "node1\nnode1\nnode2\n"

    monkeypatch.setattr(SlurmEngine, "_slurm", slurm)
    request = replace(REQUEST, environ={"FLASHCORE_CI_HOME": str(tmp_path)})

    def left_out() -> Mapping[str, str]:
        return module.make(request, tmp_path, EngineOptions()).left_out

    assert (left_out(), asked) == ({}, [])
    for name in ("node1", "elsewhere", "GPU-1234"):
        aside.note(tmp_path, name, "NODE_FAIL")
    assert (left_out(), asked) == ({"node1": "NODE_FAIL"}, [("sinfo", "--noheader", "--Node", "--format=%N")])
    now[0] = aside.KEPT_SECONDS
    assert left_out() == {}


def test_a_shard_for_several_gpus_is_refused_before_anything_runs(tmp_path: Path) -> None:
    engine = SlurmEngine(request=REQUEST, count=2, options=(), logs=tmp_path / "logs")
    pair = replace(SHARD, needs=replace(SHARD.needs, gpus=2))
    with pytest.raises(CannotCollectError, match="shard 1 needs 2 GPUs") as caught:
        engine.measure([TASK, replace(TASK, shard=pair)])
    assert "collect --shard" in caught.value.fix
    assert not (tmp_path / "logs").exists()


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Answer as a controller does when a job of one task has ended, and return how the engine reads it."""

    def ended(*last: str, status: str = "", earlier: Sequence[str] = ()) -> Ended:
        answers = iter([*earlier, "0 " + " ".join(last) if last else "slurm_load_jobs error: Invalid job id specified"])

        def run(argv: Sequence[str], **_: Any) -> Any:
            text = "7\n" if argv[0] == "sbatch" else next(answers)
            failed = "error" in text
            return SimpleNamespace(
                returncode=int(failed), timed_out=False, text=lambda: text, error_text=lambda: text if failed else ""
            )

        monkeypatch.setattr(module.process, "run", run)
        monkeypatch.setattr(module.process, "stopping", lambda: False)
        monkeypatch.setattr(module.clock, "sleep", lambda _: None)
        (tmp_path / "7_0.exit").write_text(status, encoding="ascii")
        engine = SlurmEngine(request=REQUEST, count=2, options=(), logs=tmp_path)
        return engine.measure([TASK])[0]

    return ended


@pytest.mark.parametrize(("state", "broken"), [("NODE_FAIL", True), ("BOOT_FAIL", True), ("PREEMPTED", False)])
def test_what_only_the_cluster_does_is_its_failure(state: str, broken: bool, slurm: Any) -> None:
    found = slurm(state, "0", "node1")
    assert (found.gpu, found.lost, found.is_broken) == ("node1", f"Slurm ended the job: {state}", broken)
    assert found.failure == ""


@pytest.mark.parametrize("state", ["CANCELLED", "DEADLINE", "TIMEOUT", "FAILED", "OUT_OF_MEMORY"])
def test_what_the_code_can_do_to_its_own_job_is_not_the_clusters(state: str, slurm: Any) -> None:
    found = slurm(state, "0", "node1", status="137")
    assert found.failure
    assert found.lost == ""


def test_a_cancelled_job_says_why_it_is_not_repeated(slurm: Any) -> None:
    found = slurm("CANCELLED", "0")
    assert (found.gpu, found.failure.split(",")[0]) == (module.UNKNOWN_NODE, "the job was cancelled")


def test_code_that_requeues_its_job_gets_no_second_result(slurm: Any) -> None:
    assert "#SBATCH --no-requeue\ncd " in script()
    assert slurm("COMPLETED", "1", "node1", status="0").failure.startswith("Slurm ran the job again")
    assert slurm("COMPLETED", "0", "node1", status="0").failure == ""


def test_a_job_that_the_controller_forgot_keeps_its_last_state(slurm: Any) -> None:
    assert slurm(earlier=["0 RUNNING 0 node1"]).failure == "exit status unknown, state RUNNING"
    assert slurm().failure == "exit status unknown, state UNKNOWN"
    assert slurm(status="0").failure == slurm(status="0").lost == ""


def test_an_answer_without_a_task_ends_no_shard(slurm: Any) -> None:
    """A controller that starts again may know no job yet."""
    found = slurm("NODE_FAIL", "0", "node1", earlier=["", "CLUSTER: one\n"])
    assert (found.gpu, found.lost) == ("node1", "Slurm ended the job: NODE_FAIL")
    assert slurm(earlier=[""] * module.UNANSWERED).failure == "exit status unknown, state UNKNOWN"


@pytest.mark.parametrize(("answer", "place"), [("7\n", []), ("7;other\n", ["--clusters=other"])])
def test_a_job_is_followed_on_its_own_cluster(
    answer: str, place: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same number may be another user's job here."""
    asked: list[tuple[str, ...]] = []
    answers = iter([answer, "0 RUNNING 0 node1", "0 COMPLETED 0 node1"])
    monkeypatch.setattr(SlurmEngine, "_slurm", lambda _, *argv: (asked.append(argv), next(answers))[1])
    monkeypatch.setattr(module.process, "stopping", lambda: len(asked) > 1)
    with pytest.raises(InterruptedRunError, match=f"scancel {' '.join([*place, '7'])}$"):
        SlurmEngine(request=REQUEST, count=2, options=(), logs=tmp_path).measure([TASK])
    assert [word for word in asked[1] if word.startswith("--clusters")] == place


def test_lines_that_are_no_task_do_not_keep_the_run_waiting(slurm: Any) -> None:
    answers = ["CLUSTER: one\n0 RUNNING 0 node1", "CLUSTER: one\nsqueue: warning\n\n0\n0 COMPLETED 0 node1"]
    found = slurm("COMPLETED", "0", "asked again", earlier=answers, status="0")
    assert (found.gpu, found.failure, found.lost) == ("node1", "", "")


def test_a_node_without_a_name_is_not_broken(slurm: Any) -> None:
    """Two tasks without one would put it aside, and doctor would name it for a week."""
    found = slurm("NODE_FAIL", "0")
    assert (found.gpu, found.is_broken, found.lost) == (module.UNKNOWN_NODE, False, "Slurm ended the job: NODE_FAIL")


def test_no_text_of_the_owner_is_read() -> None:
    """With `scontrol update JobName="x JobState=NODE_FAIL"` code could give its job any state."""
    assert {field.split(":")[0] for field in module.FIELDS.split(",")} == {"ArrayTaskID", "State", "RestartCnt", "NodeList"}


def test_a_node_without_a_name_is_not_excluded() -> None:
    assert "--exclude" not in script(replace(TASK, avoid=(module.UNKNOWN_NODE,)))
