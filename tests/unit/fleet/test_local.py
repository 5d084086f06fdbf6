"""What counts as a failure of the GPU itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.fleet import local
from flashcore_ci.fleet.engine import Task
from flashcore_ci.fleet.local import LocalEngine
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import heartbeat
from flashcore_ci.run.request import Request


@pytest.mark.parametrize(("xids", "lost"), [((), ""), ((13, 31, 43, 45), ""), ((31, 79), "Xid 79: GPU has fallen off the bus")])
def test_only_the_hardwares_own_errors_count(xids: tuple[int, ...], lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.nvml, "read", lambda _: None)
    assert local.hardware_failure("GPU-1", xids) == lost


def test_a_driver_that_does_not_answer_is_a_lost_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise CannotCollectError("the NVIDIA driver does not answer: GPU is lost")

    monkeypatch.setattr(local.nvml, "read", refuse)
    assert local.hardware_failure("GPU-1", ()) == "the NVIDIA driver does not answer: GPU is lost"


class Children:
    """``collect`` processes that run until the test lets them, and what ran at once on each GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, xids: dict[str, list[int]] | None = None) -> None:
        self.groups: list[tuple[str, ...]] = []
        self.twice: set[str] = set()
        self._now: list[str] = []
        self._lock = threading.Lock()
        found = xids or {}
        monkeypatch.setattr(local.process, "run", self.run)
        monkeypatch.setattr(local.process, "stopping", lambda: False)
        monkeypatch.setattr(local.nvml, "read", lambda _: None)
        monkeypatch.setattr(heartbeat.clock, "monotonic", lambda: 0.0)
        monkeypatch.setattr(local.nvml, "xids", lambda gpu: contextlib.nullcontext(found.get(gpu, [])))

    def run(self, argv: Sequence[str | Path], **_: Any) -> Any:
        words = list(map(str, argv))
        gpus = (words[words.index("--gpu") + 1], *words[words.index("--neighbours") + 1].split(","))
        gpus = tuple(filter(None, gpus))
        with self._lock:
            self.groups.append(gpus)
            self.twice |= set(gpus) & set(self._now)
            self._now += gpus
        threading.Event().wait(0.02)
        with self._lock:
            self._now = [gpu for gpu in self._now if gpu not in gpus]
        return SimpleNamespace(returncode=0, timed_out=False, last_lines=list)


def engine(*gpus: str) -> LocalEngine:
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={})
    return LocalEngine(request=request, gpus=list(gpus), logs=Path("logs"))


def a_task(index: int, gpus: int, avoid: tuple[str, ...] = ()) -> Task:
    shard = ShardFile(
        suite="s", suite_file="s.toml", plan="f" * 64, commit="1" * 40, index=index, count=9,
        units=(Unit(kind=Kind.TIMING, workload=f"w{index}"),), parts=("f" * 64,) * 9,
        needs=Needs(gpus=gpus, architecture="", exclusive=True, seconds=1.0),
    )  # fmt: skip
    return Task(shard=shard, file=Path("shard.json"), out=Path("run"), avoid=avoid)


def test_no_gpu_has_two_tasks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    tasks = [a_task(index, 1 + index % 2) for index in range(1, 9)]
    ended = engine("a", "b", "c", "d").measure(tasks)
    assert [one.task.shard.index for one in ended] == list(range(1, 9))
    assert children.twice == set()
    assert sorted(map(len, children.groups)) == [1] * 4 + [2] * 4
    assert all(len(set(group)) == len(group) for group in children.groups)


def test_the_xids_of_every_gpu_of_a_group_count(monkeypatch: pytest.MonkeyPatch) -> None:
    Children(monkeypatch, {"b": [79]})
    (ended,) = engine("a", "b").measure([a_task(1, 2)])
    assert (ended.gpu, ended.lost) == ("b", "Xid 79: GPU has fallen off the bus")


def test_a_shard_that_stands_still_is_lost_and_its_gpu_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    children, now = Children(monkeypatch), [0.0]
    monkeypatch.setattr(heartbeat.clock, "monotonic", lambda: now[0])

    def stand_still(argv: Sequence[str | Path], *, should_stop: Callable[[], bool], **options: Any) -> Any:
        assert not should_stop()
        now[0] += heartbeat.SILENT_SECONDS + 1.0
        return SimpleNamespace(**{**vars(children.run(argv, **options)), "timed_out": should_stop(), "returncode": -9})

    monkeypatch.setattr(local.process, "run", stand_still)
    (ended,) = engine("a").measure([a_task(1, 1)])
    assert (ended.lost, ended.is_broken, ended.failure) == ("no heartbeat for 180 s", False, "")


def test_a_gpu_that_fails_ends_its_shard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch, {"a": [31, 79]})
    stopped: list[bool] = []
    monkeypatch.setattr(
        local.process, "run", lambda argv, *, should_stop, **more: (stopped.append(should_stop()), children.run(argv, **more))[1]
    )
    assert engine("a").measure([a_task(1, 1)])[0].is_broken
    assert stopped == [True]


def test_a_gpu_that_is_dead_before_a_shard_is_not_lost_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that is updated meanwhile takes all GPUs away. Code would lose two of them, and be FAIL."""
    children = Children(monkeypatch)

    def refuse(gpu: str) -> None:
        if gpu == "b":
            raise CannotCollectError("the NVIDIA driver does not answer: Driver/library version mismatch")

    monkeypatch.setattr(local.nvml, "read", refuse)
    alone, pair = engine("a", "b").measure([a_task(1, 1, ("a",)), a_task(2, 2)])
    why = "before the shard began: the NVIDIA driver does not answer: Driver/library version mismatch"
    assert [(one.gpu, one.lost, one.is_broken) for one in (alone, pair)] == [("b", why, False)] * 2
    assert children.groups == []


def test_a_process_that_cannot_be_ended_loses_its_shard_and_not_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)

    def hold(argv: Sequence[str | Path], **more: Any) -> Any:
        if str(argv[argv.index("--gpu") + 1]) == "a":
            raise CannotCollectError("python cannot be ended")
        return children.run(argv, **more)

    monkeypatch.setattr(local.process, "run", hold)
    ended = engine("a", "b").measure([a_task(1, 1, ("b",)), a_task(2, 1, ("a",))])
    assert {(one.gpu, one.failure, one.lost) for one in ended} == {("a", "python cannot be ended", ""), ("b", "", "")}


def test_a_process_that_runs_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(heartbeat.clock, "monotonic", lambda: now[0])
    listener = heartbeat.Listener(tmp_path / "beat")
    with heartbeat.sent(tmp_path / "beat"):
        while not (tmp_path / "beat").exists():
            threading.Event().wait(0.01)
        now[0] = 1000.0
        assert not listener.is_silent()
    now[0] += heartbeat.SILENT_SECONDS - 1.0
    assert not listener.is_silent()
    threading.Event().wait(0.05)  # the last beat
    listener.is_silent()
    now[0] += heartbeat.SILENT_SECONDS + 1.0
    assert listener.is_silent()


@pytest.mark.parametrize(("needs", "avoid"), [(2, ("b",)), (1, ("a", "b"))])
def test_a_task_that_finds_too_few_gpus_after_a_loss_does_not_run(
    needs: int, avoid: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    children = Children(monkeypatch)
    (ended,) = engine("a", "b").measure([a_task(1, needs, avoid)])
    assert (ended.gpu, ended.lost) == ("", f"too few GPUs are left without {', '.join(avoid)}")
    assert children.groups == []


def test_a_small_machine_says_itself_that_it_has_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    assert engine("a").measure([a_task(1, 2)])[0].lost == ""
    assert children.groups == [("a",)]


def test_a_shard_gets_what_its_gate_has_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    children = Children(monkeypatch)
    monkeypatch.setattr(
        local.process, "run", lambda argv, **more: (commands.append(list(map(str, argv))), children.run(argv, **more))[1]
    )
    engine("a").measure([a_task(1, 1), replace(a_task(2, 1), given=Path("given-1.json"))])
    given = [words[words.index("--given") + 1] for words in commands if "--given" in words]
    assert (len(commands), given) == (2, ["given-1.json"])
    assert all(words[:5] == list(local.COLLECT) for words in commands)
