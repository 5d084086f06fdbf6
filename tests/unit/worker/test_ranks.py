"""The leader of several ranks: what it keeps, and what ends all of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import ranks
from flashcore_ci.worker.job import Job, Result, Work

GOOD = {"seconds": 1.0, "readings": {"diff/max": 0.1, "link/traffic": 1.0}, "notes": ["a note"]}
WORKS = tuple(Work(id=name, subject="s", params={}, seed=0) for name in ("one", "two"))


class Ranks:
    """Two ranks by what they wrote."""

    def __init__(self, folder: Path) -> None:
        options: dict[str, Any] = {"gpus": 2, "rank_seconds": 0.2}
        folders: dict[str, Any] = {"root": folder, "folder": folder}
        self.job = Job(kind="correctness", nonce="n", digest="d", subjects=(), workloads=WORKS, options=options, **folders)
        self.result = Result(self.job, folder / "result.json")
        self.codes: list[int | None] = [0, 0]
        self.files = [folder / "rank-0.json", folder / "rank-1.json"]

    def write(self, rank: int, outcomes: dict[str, Any], *, started: str | None = None, finished: bool = True) -> None:
        """Write what this rank has."""
        facts = {"environment": {"torch": "2.11"}, "outcomes": outcomes, "started": started, "finished": finished}
        self.files[rank].write_text(json.dumps(facts), encoding="utf-8")

    def follow(self) -> bool:
        """Follow them to their end."""
        watch = ranks._Watch(self.job, self.result, self.files)
        return watch.follow([SimpleNamespace(exitcode=code) for code in self.codes])

    def code(self, name: str) -> str:
        """Return why this outcome is missing."""
        return str(self.result.content["outcomes"][name]["missing"]["code"])


class Clock:
    """Time that passes only in sleep, up to an end."""

    def __init__(self) -> None:
        self.now, self.end = 0.0, 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self.end:
            raise TimeoutError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the leader's clock."""
    made = Clock()
    monkeypatch.setattr(ranks, "time", made)
    return made


@pytest.fixture
def two(tmp_path: Path, clock: Clock) -> Ranks:
    """Return two ranks that have done all."""
    assert clock.now == 0.0
    made = Ranks(tmp_path)
    for rank in range(2):
        made.write(rank, {"one": GOOD, "two": GOOD})
    return made


def test_what_all_ranks_finished_is_the_result(two: Ranks) -> None:
    assert two.follow()
    assert set(two.result.content["outcomes"]) == {"one", "two"}
    assert two.result.content["environment"] == {"torch": "2.11"}


def test_a_rank_that_dies_keeps_what_was_done_before(two: Ranks) -> None:
    two.write(1, {"one": GOOD}, started="two", finished=False)
    two.codes = [None, -11]
    assert not two.follow()
    assert two.code("two") == Code.RANK_DIED
    assert "rank 1 was killed by signal 11" in two.result.content["outcomes"]["two"]["missing"]["message"]
    assert "missing" not in two.result.content["outcomes"]["one"]


def test_a_rank_that_lost_its_neighbour_does_not_hide_its_death(two: Ranks) -> None:
    lost = {"seconds": 1.0, "missing": {"code": "raised", "message": "RuntimeError: Connection closed by peer"}}
    two.write(0, {"one": GOOD, "two": lost})
    two.write(1, {"one": GOOD}, started="two", finished=False)
    two.codes = [None, 17]
    assert not two.follow()
    assert two.code("two") == Code.RANK_DIED


def test_a_rank_that_said_why_it_ends_is_believed(two: Ranks) -> None:
    two.write(0, {"one": GOOD}, started="two", finished=False)
    two.write(1, {"one": GOOD, "two": {"seconds": 1.0, "missing": {"code": "crash", "message": "CUDA error"}}}, finished=False)
    two.codes = [None, 1]
    assert not two.follow()
    assert two.result.content["outcomes"]["two"]["missing"] == {"code": "crash", "message": "rank 1: CUDA error"}


def test_the_first_cause_is_named_and_not_what_follows(two: Ranks) -> None:
    for rank, code in enumerate(("ranks-disagree", "raised")):
        two.write(rank, {"one": {"seconds": 1.0, "missing": {"code": code, "message": "why"}}}, finished=False)
    two.codes = [None, None]
    assert not two.follow()
    assert two.code("one") == "raised"


def test_a_rank_that_ends_early_with_0_has_died(two: Ranks) -> None:
    two.write(1, {"one": GOOD}, started="two", finished=False)
    assert not two.follow()
    assert two.code("two") == Code.RANK_DIED


def test_a_rank_that_hangs_ends_all(two: Ranks) -> None:
    two.write(0, {"one": GOOD}, started="two", finished=False)
    two.write(1, {"one": GOOD}, started="two", finished=False)
    two.codes = [None, None]
    assert not two.follow()
    assert two.code("two") == Code.RANK_HUNG
    assert "rank 0 and 1" in two.result.content["outcomes"]["two"]["missing"]["message"]


def test_a_rank_that_waits_for_its_start_does_not_hang(two: Ranks, tmp_path: Path, clock: Clock) -> None:
    two.job.options["go"] = str(tmp_path / "go")
    for rank in range(2):
        two.write(rank, {}, finished=False)
    two.codes, clock.end = [None, None], 60.0
    with pytest.raises(TimeoutError):
        two.follow()
    assert not two.result.content["outcomes"]


def test_a_failure_of_one_rank_is_the_outcome(two: Ranks) -> None:
    two.write(1, {"one": {"seconds": 1.0, "missing": {"code": "ranks-disagree", "message": "another step"}}})
    assert not two.follow()
    assert two.result.content["outcomes"]["one"]["missing"] == {"code": "ranks-disagree", "message": "rank 1: another step"}


def test_a_rank_that_skips_a_workload_leaves_it_without_an_outcome(two: Ranks) -> None:
    two.write(1, {"one": GOOD})
    assert two.follow()
    assert set(two.result.content["outcomes"]) == {"one"}


def test_ranks_that_cannot_start_are_an_error_of_the_machine(two: Ranks) -> None:
    for rank in range(2):
        two.write(rank, {}, finished=False)
    two.codes = [None, 1]
    with pytest.raises(RuntimeError, match="rank 1 ended early, exit status 1"):
        two.follow()


def test_a_file_that_is_no_result_counts_as_nothing(two: Ranks) -> None:
    two.files[1].write_text("[]", encoding="utf-8")
    with pytest.raises(RuntimeError, match="rank 1 ended early, exit status 0"):
        two.follow()
    assert not two.result.content["outcomes"]


@pytest.mark.parametrize(
    ("name", "values", "worst"),
    [
        ("diff/max", (0.1, 0.2), 0.2),
        ("diff/max", (0.1, "nan"), "nan"),
        ("diff/max", ("inf", 0.1), "inf"),
        ("link/traffic", (1.0, 0.0), 0.0),
        ("link/traffic", (1.0, 3.0), 3.0),
    ],
)
def test_the_worst_rank_counts(name: str, values: tuple[Any, Any], worst: Any) -> None:
    for order in (values, values[::-1]):
        found = ranks.combine([{**GOOD, "readings": {name: value}} for value in order])
        assert found["readings"][name] == worst


def test_ranks_with_other_readings_disagree() -> None:
    found = ranks.combine([GOOD, {**GOOD, "readings": {"diff/max": 0.1}}])
    assert found["missing"]["code"] == Code.RANKS_DISAGREE


def test_times_need_no_readings() -> None:
    assert ranks.combine([{"seconds": 1.0, "ms": 2.0}, {"seconds": 3.0, "ms": 2.0}]) == {"seconds": 3.0, "ms": 2.0}


def test_the_sensors_of_every_gpu_count() -> None:
    first = {"seconds": 1.0, "ms": 2.0, "watts": 300.0, "celsius": 60, "nvml_mhz": 1900, "reasons": {"0x4": 2}}
    second = {"seconds": 1.0, "ms": 2.0, "watts": 650.0, "celsius": 50, "nvml_mhz": 1500, "reasons": {"0x4": 1, "0x40": 3}}
    worst = {"seconds": 1.0, "ms": 2.0, "watts": 650.0, "celsius": 60, "nvml_mhz": 1500, "reasons": {"0x4": 3, "0x40": 3}}
    assert ranks.combine([first, second]) == ranks.combine([second, first]) == worst
    assert "watts" not in ranks.combine([first, {"seconds": 1.0, "ms": 2.0}]), "a GPU without sensors is not like the other"


def test_a_rank_that_cannot_start_ends_those_before_it(two: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Process:
        def __init__(self, target: Any, args: tuple[str, str, int]) -> None:
            self.rank = args[-1]

        def start(self) -> None:
            if self.rank:
                raise BlockingIOError("no more processes")

        def kill(self) -> None:
            calls.append(f"kill {self.rank}")

        def join(self) -> None:
            calls.append(f"join {self.rank}")

    monkeypatch.setattr(ranks.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=Process))
    with pytest.raises(BlockingIOError):
        ranks.lead(two.job, two.result)
    assert calls == ["kill 0", "join 0"]
