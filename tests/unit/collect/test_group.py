"""GPUs for workloads that need several."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evidence_factories import make_provenance
from factories import make_build, make_description, make_plan, make_workload
from sound_gpu import SOUND

from flashcore_ci.collect import group
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind

PAIR = make_workload("pair", params=(("gpus", 2), ("n", 1)), collect=(Kind.CORRECTNESS, Kind.SANITIZER, Kind.TIMING))
SINGLE = make_workload("single")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    folders: dict[str, Any] = dict.fromkeys(("root", "libraries", "run_folder", "scratch", "lock_dir"), tmp_path)
    problems = tuple(replace(make_description().problems[0], workload=name) for name in ("pair", "single"))
    plan = replace(make_plan(descriptions=(make_description(problems=problems),)), workloads=(PAIR, SINGLE))
    return Session(
        plan=plan, builds=(make_build(),), uuid="GPU-2", python=Path("python"), origin=make_provenance, sanitizer=None, ncu=None,
        progress=lambda _: None, **folders,
    )  # fmt: skip


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the machine's GPUs by UUID: edit it."""
    found = {"GPU-3": "NVIDIA H200", "GPU-2": "NVIDIA H200", "GPU-1": "NVIDIA H200"}
    monkeypatch.setattr(group.nvml, "uuids", lambda: tuple(found))
    monkeypatch.setattr(group.nvml, "read", lambda uuid: replace(SOUND, uuid=uuid, name=found[uuid]))
    return found


def test_the_chosen_gpu_and_the_first_other_are_the_group(session: Session, gpus: dict[str, str]) -> None:
    assert group.find_gpus(session) == ("GPU-2", "GPU-1")
    gpus["GPU-1"] = "NVIDIA L4"
    assert group.find_gpus(session) == ("GPU-2", "GPU-3")


def test_a_gpu_that_does_not_answer_is_no_neighbour(
    session: Session, gpus: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(uuid: str) -> Any:
        if uuid == "GPU-1":
            raise CannotCollectError("GPU-1 is lost", fix="reset it")
        return replace(SOUND, uuid=uuid, name=gpus[uuid])

    monkeypatch.setattr(group.nvml, "read", read)
    assert group.find_gpus(session) == ("GPU-2", "GPU-3")


def test_only_the_given_neighbours_join(session: Session, gpus: dict[str, str]) -> None:
    assert set(gpus) > {"GPU-1", "GPU-2"}
    assert group.find_gpus(replace(session, neighbours=("GPU-3",))) == ("GPU-2", "GPU-3")
    assert group.find_gpus(replace(session, neighbours=())) == ("GPU-2",)


def test_a_gpu_is_no_neighbour_of_itself_under_another_name(
    session: Session, gpus: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uuids = {"0": "GPU-1", "1": "GPU-2", "GPU-2": "GPU-2"}
    monkeypatch.setattr(group.nvml, "read", lambda name: replace(SOUND, uuid=uuids[name], name=gpus[uuids[name]]))
    assert group.find_gpus(replace(session, neighbours=("1",))) == ("GPU-2",)
    assert group.find_gpus(replace(session, neighbours=("1", "0"))) == ("GPU-2", "GPU-1")


def test_one_gpu_is_enough_for_a_plan_that_asks_for_one(session: Session) -> None:
    assert group.find_gpus(replace(session, plan=replace(session.plan, workloads=(SINGLE,)))) == ("GPU-2",)


def test_locks_are_taken_in_the_order_of_names(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    @contextlib.contextmanager
    def hold(file: Path, **_: Any) -> Any:
        order.append(file.name)
        yield
        order.append(f"free {file.name}")

    monkeypatch.setattr(group.lock, "hold", hold)
    monkeypatch.setattr(group.nvml, "locked_clocks", lambda *_: contextlib.nullcontext())
    for gpus in (("GPU-2", "GPU-1"), ("GPU-1", "GPU-2")):
        order.clear()
        with group.hold(session, gpus):
            assert order == ["flashcore-ci-GPU-1.lock", "flashcore-ci-GPU-2.lock"]
        assert order[2:] == ["free flashcore-ci-GPU-2.lock", "free flashcore-ci-GPU-1.lock"]


def test_each_session_measures_the_workloads_of_its_size(session: Session) -> None:
    one, two = group.sessions(session, ("GPU-2", "GPU-1"))
    assert [workload.id for workload in one.workloads(Kind.TIMING)] == ["single"]
    assert [workload.id for workload in two.workloads(Kind.TIMING)] == ["pair"]
    assert one.artifacts != two.artifacts, "their logs have the same names"
    assert one.scratch != two.scratch


def test_too_few_gpus_are_inconclusive_with_one_line_and_never_one_gpu(session: Session, gpus: dict[str, str]) -> None:
    del gpus["GPU-1"], gpus["GPU-3"]
    found = group.find_gpus(session)
    seen = list(group.without_gpus(session, found))
    assert {observation.kind for observation in seen} == {Kind.CORRECTNESS, Kind.SANITIZER, Kind.TIMING}
    why = Missing(code=Code.TOO_FEW_GPUS, message="it needs 2 GPUs of one model, and this machine has 1")
    assert all((observation.target, observation.missing) == ("pair", why) for observation in seen)
    assert NEXT_STEP[Code.TOO_FEW_GPUS]
    assert [part.gpus for part in group.sessions(session, found)] == [("GPU-2",)]


def test_a_group_has_no_multicast_and_no_network(session: Session) -> None:
    _, two = group.sessions(session, ("GPU-2", "GPU-1"))
    for kind in ("correctness", "timing", "messages"):
        job = two.job(kind, kind, (PAIR,), seconds=60.0)
        assert job.variables["NCCL_NVLS_ENABLE"] == "0"
        assert (job.variables["NCCL_SOCKET_IFNAME"], job.variables["GLOO_SOCKET_IFNAME"]) == ("lo", "lo")
        assert job.variables["CUDA_VISIBLE_DEVICES"] == "GPU-2,GPU-1"
        assert (job.options["gpus"], job.options["rank_seconds"]) == (2, 30.0)
    assert two.job("probe", "probe", (), seconds=1.0).variables["CUDA_VISIBLE_DEVICES"] == "GPU-2"
    assert "gpus" not in session.job("correctness", "correctness", (SINGLE,), seconds=1.0).options


def test_a_group_that_cannot_be_recorded_runs_under_no_tool(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = Missing(code=Code.RANK_HUNG, message="rank 1 did not end within 30 s")
    result = WorkloadResult(values={}, missing=hung, completed=None, result_file=Path("result.json"))
    monkeypatch.setattr(group.isolation, "run_isolated", lambda *_, **__: {"pair": result})
    _, two = group.sessions(session, ("GPU-2", "GPU-1"))
    assert group.record_messages(two, (PAIR,)) == {"pair": hung}
    assert group.record_messages(session, (SINGLE,)) == {}
