"""What a fleet does when machines fail: try elsewhere, blame the code that loses two, and never repeat a failure of the code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from evidence_factories import make_provenance
from factories import make_build, make_plan

from flashcore_ci.doctor import checks
from flashcore_ci.fleet import measure
from flashcore_ci.fleet.engine import Ended, Task
from flashcore_ci.fleet.measure import Fleet
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import Attempt
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import aside

BROKEN = "Xid 79: GPU has fallen off the bus"


@dataclass
class Machines:
    """An engine whose GPUs fail as told: (shard, GPU) to why it was lost."""

    lost: dict[tuple[int, str], str] = field(default_factory=dict)
    failure: str = ""
    broken: bool = True
    gpus: list[str] = field(default_factory=lambda: ["a", "b", "c"])
    verified: bool = True
    left_out: dict[str, str] = field(default_factory=dict)
    rounds: list[list[tuple[int, str]]] = field(default_factory=list)

    def slots(self) -> int:
        return len(self.gpus)

    def put_aside(self, gpu: str) -> None:
        self.gpus.remove(gpu)

    def measure(self, tasks: Sequence[Task]) -> Sequence[Ended]:
        ended = []
        for task in tasks:
            gpu = next((gpu for gpu in self.gpus if gpu not in task.avoid), "")
            if not gpu:
                ended.append(Ended(task=task, gpu="", lost="too few GPUs are left"))
                continue
            lost = self.lost.get((task.shard.index, gpu), "")
            ended.append(Ended(task=task, gpu=gpu, lost=lost, is_broken=self.broken, failure=self.failure))
        self.rounds.append([(one.task.shard.index, one.gpu) for one in ended])
        return ended


def task(index: int) -> Task:
    shard = ShardFile(
        suite="tiny",
        suite_file="gates/tiny.toml",
        plan="f" * 64,
        commit="1" * 40,
        index=index,
        count=2,
        units=(Unit(kind=Kind.TIMING, workload=f"w{index}"),),
        parts=("f" * 64,) * 2,
        needs=Needs(gpus=1, architecture="", exclusive=True, seconds=1.0),
    )
    return Task(shard=shard, file=Path(f"shard-{index}.json"), out=Path(f"run-{index}"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("home")


def run(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(measure.merge, "read", lambda bundles: tuple(str(bundle) for bundle in bundles))
    monkeypatch.setattr(measure.merge, "demand_shard", lambda *_: None)
    fleet = Fleet(engine=machines, progress=lambda _: None, home=Path("home"))
    fleet.run([task(1), task(2)])
    return fleet


def test_a_sound_machine_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = run(machines := Machines(), monkeypatch)
    assert machines.rounds == [[(1, "a"), (2, "a")]]
    assert fleet.done == ["run-1", "run-2"]
    assert [(attempt.number, attempt.shard_index, attempt.reason) for attempt in fleet.attempts] == [(1, 1, ""), (1, 2, "")]


def test_a_lost_shard_goes_to_another_gpu_into_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = run(machines := Machines(lost={(2, "a"): BROKEN}), monkeypatch)
    assert machines.rounds == [[(1, "a"), (2, "a")], [(2, "b")]]
    assert fleet.done == ["run-1", "run-2-again-1"]
    assert fleet.attempts[1:] == [
        Attempt(shard_index=2, number=1, gpu="a", reason=BROKEN),
        Attempt(shard_index=2, number=2, gpu="b"),
    ]
    assert fleet.blamed == []


def test_code_that_loses_two_gpus_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = run(machines := Machines(lost={(2, "a"): BROKEN, (2, "b"): BROKEN}), monkeypatch)
    assert machines.rounds == [[(1, "a"), (2, "a")], [(2, "b")]]
    assert [(one.shard.index, why.code) for one, why in fleet.blamed] == [(2, Code.LOST_GPU)]
    assert fleet.done == ["run-1"]


def test_a_shard_that_fails_does_not_hide_that_another_lost_two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines()

    def measured(tasks: Sequence[Task]) -> Sequence[Ended]:
        ended = []
        for one in tasks:
            lost = BROKEN if one.shard.index == 1 else "PREEMPTED" if one.number < measure.MAX_TRIES else ""
            failure = "" if lost else "exit status -9"
            ended.append(Ended(task=one, gpu=f"gpu-{one.number}", lost=lost, is_broken=lost == BROKEN, failure=failure))
        return ended

    monkeypatch.setattr(machines, "measure", measured)
    fleet = run(machines, monkeypatch)
    assert [(one.shard.index, why.code) for one, why in fleet.blamed] == [(1, Code.LOST_GPU)]
    assert fleet.notes == ["shard 2 is lost: gpu-3: exit status -9"]


@pytest.mark.parametrize("verified", [True, False])
def test_a_run_of_nothing_but_lost_gpus_says_so_and_is_as_verified_as_its_engine(verified: bool) -> None:
    plan, builds = make_plan(), (make_build(),)
    lost = replace(task(1), shard=replace(task(1).shard, units=(Unit(kind=Kind.TIMING, workload="big"),)))
    fleet = Fleet(engine=Machines(verified=verified), progress=lambda _: None, home=Path("home"))
    fleet.notes.append("shard 1 is lost: no heartbeat for 180 s")
    with pytest.raises(CannotCollectError, match="no shard came back: shard 1 is lost: no heartbeat for 180 s"):
        measure._only_blame(fleet, plan, builds, make_provenance(device=None))
    fleet.blamed.append((lost, Missing(code=Code.LOST_GPU, message="shard 1 lost 2 GPUs")))
    run = measure._only_blame(fleet, plan, builds, make_provenance(device=None, tools=()))
    evidence = measure._joined(fleet, run, plan, builds, run.evidence.provenance)
    assert [(one.kind, one.target, one.missing.code) for one in evidence.observations] == [(Kind.TIMING, "big", Code.LOST_GPU)]
    assert evidence.is_part is not verified


def test_a_gpu_that_fails_twice_is_put_aside_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = run(machines := Machines(lost={(1, "a"): BROKEN, (2, "a"): BROKEN}), monkeypatch)
    assert machines.gpus == ["b", "c"]
    assert fleet.notes == [f"a failed 2 times and was put aside: {BROKEN}"]
    assert len(fleet.done) == 2
    monkeypatch.setattr(aside.clock, "wall", lambda: next(Path("home/aside").iterdir()).stat().st_mtime + 1.0)
    (diagnosis,) = checks.diagnose_aside(aside.noted(Path("home")))
    assert (diagnosis.problem, diagnosis.fact) == (True, f"a failed twice: {BROKEN}")
    assert aside.noted(Path("nowhere")) == ()


def test_a_gpu_that_fails_once_in_two_runs_is_put_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a shard for each GPU it hardly gets a second one in the same run."""
    now = [0.0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(aside.clock, "wall", lambda: max(file.stat().st_mtime for file in Path("home/aside").iterdir()) + now[0])
    notes = []
    for later in (0.0, 8 * 86_400.0, 3_600.0):
        now[0] = later
        fleet = run(Machines(lost={(1, "a"): BROKEN}), monkeypatch)
        fleet.remember()
        notes.append(fleet.notes)
    assert notes == [[], [], [f"a failed in an earlier run, too, and was put aside: {BROKEN}"]]  # the first is over a week old
    assert [gpu for gpu, _, _ in aside.noted(Path("home"))] == ["a"]


def test_code_that_loses_two_gpus_does_not_put_them_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else two runs of a bad kernel would take all GPUs from everyone."""
    monkeypatch.chdir(tmp_path)
    for _ in range(3):
        fleet = run(Machines(lost={(1, "a"): BROKEN, (1, "b"): BROKEN}), monkeypatch)
        fleet.remember()
        assert [why.code for _, why in fleet.blamed] == [Code.LOST_GPU]
    assert not Path("home/aside").exists()


def test_a_gpu_under_code_that_no_other_measured_is_not_put_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        fleet = run(Machines(lost={(1, "a"): BROKEN}, gpus=["a"]), monkeypatch)
        fleet.remember()
    assert not Path("home/aside").exists()


def test_a_long_reason_does_not_spoil_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of more than 4,096 characters in a run is refused."""
    engine = Machines()
    ended = [Ended(task=task(1), gpu="a", failure="x" * 60_000), Ended(task=task(2), gpu="a")]
    monkeypatch.setattr(engine, "measure", lambda _: ended)
    fleet = run(engine, monkeypatch)
    assert [len(note) < 1_100 for note in fleet.notes] == [True]
    assert [len(attempt.reason) < 1_100 for attempt in fleet.attempts] == [True, True]


def test_a_machine_that_is_taken_away_is_no_failure_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(lost={(index, gpu): "PREEMPTED" for index in (1, 2) for gpu in "abcd"}, broken=False)
    machines.gpus.append("d")
    fleet = run(machines, monkeypatch)
    assert machines.rounds == [[(1, gpu), (2, gpu)] for gpu in "abc"]
    assert machines.gpus == ["a", "b", "c", "d"]
    assert fleet.blamed == fleet.done == []
    assert fleet.notes == ["shard 1 is lost: PREEMPTED", "shard 2 is lost: PREEMPTED"]


def test_a_gpu_that_was_taken_away_does_not_count_as_lost_by_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(lost={(1, "a"): "PREEMPTED", (1, "b"): BROKEN, (1, "c"): BROKEN}, broken=False)
    machines.gpus.append("d")
    measured = machines.measure
    monkeypatch.setattr(
        machines, "measure", lambda tasks: [replace(one, is_broken=one.lost == BROKEN) for one in measured(tasks)]
    )
    fleet = run(machines, monkeypatch)
    assert [round_[0] for round_ in machines.rounds] == [(1, "a"), (1, "b"), (1, "c")]
    assert [(one.shard.index, why.code) for one, why in fleet.blamed] == [(1, Code.LOST_GPU)]


def test_a_shard_that_no_gpu_is_left_for_is_lost_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines()
    monkeypatch.setattr(
        machines, "measure", lambda tasks: [Ended(task=one, gpu="", lost="too few GPUs are left") for one in tasks]
    )
    fleet = run(machines, monkeypatch)
    assert fleet.notes == ["shard 1 is lost: too few GPUs are left", "shard 2 is lost: too few GPUs are left"]
    assert fleet.attempts == fleet.blamed == []


@pytest.mark.parametrize("is_other_there", [True, False])
def test_an_engine_that_cannot_repeat_a_shard_loses_it_and_not_the_run(
    is_other_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sbatch does on a cluster without another node, or any controller that no longer answers."""
    machines = Machines(lost={(2, "a"): "NODE_FAIL"} | ({} if is_other_there else {(1, "a"): "NODE_FAIL"}))
    measured = machines.measure

    def refuse(tasks: Sequence[Task]) -> Sequence[Ended]:
        if tasks[0].number > 1:
            raise CannotCollectError("sbatch: Requested node configuration is not available")
        return measured(tasks)

    monkeypatch.setattr(machines, "measure", refuse)
    if not is_other_there:
        with pytest.raises(CannotCollectError, match="Requested node"):
            run(machines, monkeypatch)
        return
    fleet = run(machines, monkeypatch)
    assert fleet.done == ["run-1"]
    why = "cannot repeat it without a: sbatch: Requested node configuration is not available"
    assert fleet.notes == [f"shard 2 is lost: {why}"]
    assert [attempt.reason for attempt in fleet.attempts] == ["", "NODE_FAIL"]


def test_a_bundle_with_results_of_another_shard_is_to_blame_and_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, shard: ShardFile) -> None:
        if shard.index == 1:
            raise measure.merge.ForeignUnitError("run-1", "shard 1 does not ask for timing of w2")

    monkeypatch.setattr(measure.merge, "read", lambda bundles: tuple(str(bundle) for bundle in bundles))
    monkeypatch.setattr(measure.merge, "demand_shard", refuse)
    fleet = Fleet(engine=Machines(), progress=lambda _: None, home=Path("home"))
    fleet.run([task(1), task(2)])
    assert fleet.done == ["run-2"]
    assert [(one.shard.index, why.code) for one, why in fleet.blamed] == [(1, Code.FOREIGN_UNIT)]
    why = "run-1: foreign-unit: shard 1 does not ask for timing of w2"
    assert fleet.notes == [f"shard 1 is lost: {why}"]
    assert [attempt.reason for attempt in fleet.attempts] == [why, ""]


def test_any_other_failure_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(failure="no ncu")
    with pytest.raises(CannotCollectError, match="shard 1 on a: no ncu"):
        run(machines, monkeypatch)
    assert len(machines.rounds) == 1


def test_a_shard_that_fails_alone_does_not_take_the_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines()
    measured = machines.measure
    monkeypatch.setattr(
        machines,
        "measure",
        lambda tasks: [replace(measured([one])[0], failure="" if one.shard.index == 1 else "exit status -9") for one in tasks],
    )
    monkeypatch.setattr(Fleet, "_keep", lambda self, task: self.notes.append(f"kept {task.shard.index}") or "")
    fleet = Fleet(engine=machines, progress=lambda _: None, home=Path("home"))
    fleet.run([task(1), task(2)])
    assert fleet.notes == ["kept 1", "shard 2 is lost: a: exit status -9"]
    assert [(attempt.gpu, attempt.reason) for attempt in fleet.attempts] == [("a", ""), ("a", "exit status -9")]
