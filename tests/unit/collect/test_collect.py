"""A whole collection, its workers and its machine scripted."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from factories import make_build, make_plan
from scripted_machine import SICK, WANTED, collected, make_session, reasons

from flashcore_ci.adapters.nvml import User
from flashcore_ci.collect import child, collect, profile
from flashcore_ci.collect.child import STOPPED
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.identity import workload_identity
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan import planner


def test_everything_that_the_plan_asks_for_is_observed_once_and_stamped(world, tmp_path):
    evidence = collected(tmp_path)
    assert {(observation.kind, observation.target) for observation in evidence.observations} == WANTED
    assert len(evidence.observations) == len(WANTED)
    plan, build = make_plan(), make_build()
    for observation in evidence.observations:
        workload = next(workload for workload in plan.workloads if workload.id == observation.target)
        problem = plan.description("scale").problem(workload.id)
        assert observation.identity == workload_identity(observation.kind, workload, problem, build, plan.protocol)
        assert observation.missing is None


def test_the_values_arrive(world, tmp_path):
    by_kind = {observation.kind: observation for observation in collected(tmp_path).observations if observation.target == "big"}
    assert by_kind[Kind.CORRECTNESS].reading("error/ratio") == Measured(value=0.5, unit="ratio")
    assert by_kind[Kind.SANITIZER].reading("racecheck/findings") == Measured(value=0.0, unit="count")
    assert by_kind[Kind.SANITIZER].reading("initcheck/launches") == Measured(value=2.0, unit="count")
    assert by_kind[Kind.PROFILE].reading("sol/dram") == Measured(value=90.0, unit="%")
    timed = by_kind[Kind.TIMING]
    assert dict(timed.samples)["cycles/gpu/cold"].values == (1.1,) * 5
    assert timed.notes == ("clocks were held by: power cap",)
    assert [Path(name).name for name in timed.artifacts] == [f"process-{number}.json" for number in range(5)]
    assert all((tmp_path / "run" / name).is_file() for name in timed.artifacts)


def test_the_machine_is_on_record(world, tmp_path):
    provenance = collected(tmp_path).provenance
    assert provenance.device.name == "NVIDIA H200"
    assert (provenance.device.multiprocessors, provenance.device.l2) == (132, 62914560)
    assert dict(provenance.tools) == {"compute-sanitizer": "2026.4.0.0", "ncu": "2025.3.1.0", "torch": "2.11.0"}


def test_a_check_that_does_not_see_its_control_is_not_clean(world, tmp_path):
    world.blind = "0 findings, none of them in the control"
    found = [observation for observation in collected(tmp_path).observations if observation.kind is Kind.SANITIZER]
    codes = {observation.reading(f"{tool}/findings").code for observation in found for tool in SANITIZER_TOOLS}
    assert codes == {Code.CONTROL_FAILED}
    assert SUBJECT_FAILURES.isdisjoint(codes)


def test_profile_and_timing_have_the_gpu_alone(world, tmp_path):
    collected(tmp_path)
    first = [kind for kind in world.kinds if kind in {"correctness", "launch", "control", "probe"}]
    assert world.kinds == [*first, "profile", *["timing"] * 5]


@pytest.mark.parametrize("many", [True, False])
def test_with_many_workloads_what_is_not_urgent_starts_after_the_probe(world, tmp_path, monkeypatch, many):
    began, urgent = [], threading.Event()

    def run(spec, start=None):
        began.append(spec.name)
        if {"racecheck", "correctness"} <= set(began):
            urgent.set()
        if spec.kind == "probe":
            assert urgent.wait(10)
            if many:
                threading.Event().wait(0.05)  # who does not wait for the probe begins now
            began.append("the probe has ended")
        return world.run(spec, start)

    monkeypatch.setattr(child, "run", run)
    monkeypatch.setattr(collect, "MANY_SANITIZED", 2 if many else 3)
    found = reasons(collected(tmp_path))
    assert all(codes == {None} for codes in found.values())
    ended = began.index("the probe has ended")
    assert {"racecheck", "correctness"} <= set(began[:ended])
    if many:
        assert {"memcheck", "synccheck", "initcheck", "roll-call", "profile"} <= set(began[ended:])


def test_sanitizers_that_have_the_gpu_without_correctness_do_not_wait_for_the_probe(world, tmp_path, monkeypatch):
    asked, every = set(), threading.Event()

    def run(spec, start=None):
        asked.add(spec.name)
        if {"racecheck", "memcheck", "synccheck", "initcheck", "roll-call"} <= asked:
            every.set()
        assert spec.kind != "probe" or every.wait(10)
        return world.run(spec, start)

    monkeypatch.setattr(child, "run", run)
    monkeypatch.setattr(collect, "MANY_SANITIZED", 2)
    session = make_session(tmp_path)
    plan = planner.keep(session.plan, lambda check: check.gate.evidence is not Kind.CORRECTNESS)
    assert Kind.CORRECTNESS not in {seen.kind for seen in collect.collect(replace(session, plan=plan)).observations}


def test_the_context_of_the_profile_may_wait_on_the_gpu(world, tmp_path):
    """It is made while outputs are checked, because it takes a second under ncu."""
    session = make_session(tmp_path)
    assert profile.contexts(session) == 1
    candidate = replace(
        session.plan, descriptions=tuple(replace(each, candidate=("k.py",)) for each in session.plan.descriptions)
    )
    assert profile.contexts(replace(session, plan=candidate)) == 0
    assert profile.contexts(replace(session, plan=replace(session.plan, workloads=()))) == 0


def test_an_unhealthy_gpu_blames_no_kernel(world, tmp_path):
    world.probe = SICK
    found = reasons(collected(tmp_path))
    assert set(found) == {Kind.CORRECTNESS, Kind.SANITIZER, Kind.PROFILE, Kind.TIMING}
    assert all(codes == {Code.DEVICE_UNHEALTHY} for codes in found.values())
    assert "timing" not in world.kinds


@pytest.mark.parametrize("sick", ["", "GPU-1", "GPU-2"])
def test_every_gpu_of_a_group_is_probed(world, tmp_path, sick):
    kinds, plan = (Kind.CORRECTNESS, Kind.TIMING), make_plan()
    pairs = tuple(replace(each, params=(("gpus", 2), *each.params), collect=kinds) for each in plan.workloads)
    world.gpus, world.sick = "GPU-1,GPU-2", sick
    measured, _ = collect._measure(make_session(tmp_path, plan=replace(plan, workloads=pairs), group=("GPU-1", "GPU-2")))
    assert {seen.kind for seen in measured} == set(kinds)
    assert {seen.missing and seen.missing.code for seen in measured} == {Code.DEVICE_UNHEALTHY if sick else None}


def test_others_on_the_gpu_spoil_only_what_is_timed(world, tmp_path):
    world.users = (User(pid=7, name="train.py", descendant=False),)
    found = reasons(collected(tmp_path))
    assert found[Kind.CORRECTNESS] == {None}
    assert found[Kind.PROFILE] == found[Kind.TIMING] == {Code.GPU_BUSY}


@pytest.mark.parametrize("way", ["MIG", "MPS"])
def test_a_divided_gpu_is_not_timed_even_if_the_server_is_allowed(world, tmp_path, way):
    world.mig = way == "MIG"
    world.users = (User(pid=7, name="nvidia-cuda-mps", descendant=False),) if way == "MPS" else ()
    evidence = collected(tmp_path, allow=("nvidia*",))
    found = reasons(evidence)
    assert found[Kind.CORRECTNESS] == {None}
    assert found[Kind.PROFILE] == found[Kind.TIMING] == {Code.GPU_BUSY}
    assert {o.missing.message for o in evidence.observations if o.kind is Kind.TIMING} == {f"{way} divides this GPU"}


def test_the_load_of_other_gpus_is_recorded(world, tmp_path):
    world.loads = {"GPU-2": 97, "GPU-3": 0}
    assert collected(tmp_path).notes == ("GPU-2 of this machine was busy: up to 97 %",)


def test_others_who_come_while_it_is_timed_spoil_it(world, tmp_path, monkeypatch):
    def run(spec, start=None):
        if spec.name == "timing-4":
            world.users = (User(pid=7, name="train.py", descendant=False),)
        return world.run(spec, start)

    monkeypatch.setattr(child, "run", run)
    found = reasons(collected(tmp_path))
    assert found[Kind.PROFILE] == {None}
    assert found[Kind.TIMING] == {Code.GPU_BUSY}


def test_others_may_be_allowed_by_name(world, tmp_path):
    world.users = (User(pid=7, name="dcgm-exporter", descendant=False),)
    assert reasons(collected(tmp_path, allow=("dcgm-*",)))[Kind.TIMING] == {None}


HERE = User(pid=70, name="bash", descendant=False)
ELSEWHERE = tuple(User(pid=1000 + number, name="", descendant=False) for number in range(2))


@pytest.mark.parametrize(
    ("users", "contexts", "is_busy"),
    [
        ((HERE, *ELSEWHERE), 3, False),
        ((HERE, *ELSEWHERE), 2, True),
        ((HERE, *ELSEWHERE), 0, True),
        ((HERE, *ELSEWHERE, User(pid=71, name="python3", descendant=True)), 4, True),
        ((HERE,), 3, True),
    ],
)
def test_contexts_of_this_run_are_no_strangers_in_another_pid_namespace(world, tmp_path, users, contexts, is_busy):
    """The driver's number of one of them is that of a program of this container."""
    world.users = users
    busy = make_session(tmp_path).check_exclusive(contexts)
    assert (busy is not None) is is_busy
    before = make_session(tmp_path, users=frozenset({70, 1000}))
    assert (before.check_exclusive(1) is None) is (users == (HERE, *ELSEWHERE))


def test_users_that_cannot_be_named_are_a_note(world, tmp_path):
    world.users = (User(pid=7, name="", descendant=False),)
    evidence = collected(tmp_path)
    assert "cannot tell" in evidence.notes[0]
    assert reasons(evidence)[Kind.TIMING] == {None}


def test_a_stopped_run_keeps_what_it_has(world, tmp_path):
    world.failures = {"profile": STOPPED, "timing": STOPPED}
    found = reasons(collected(tmp_path))
    assert found[Kind.CORRECTNESS] == {None}
    assert found[Kind.PROFILE] == found[Kind.TIMING] == {Code.INTERRUPTED}


def test_a_workload_that_fails_is_not_timed_again(world, tmp_path):
    world.outcomes["timing"] = {"missing": {"code": "output-changed", "message": "m"}}
    found = reasons(collected(tmp_path))
    assert found[Kind.TIMING] == {Code.OUTPUT_CHANGED}
    assert world.kinds.count("timing") <= 2


def test_an_interpreter_without_torch_is_an_error_and_not_a_verdict(world, tmp_path):
    failure = Missing(code=Code.TOOL_FAILED, message="ModuleNotFoundError: No module named 'torch'")
    world.failures = dict.fromkeys(("probe", "correctness", "launch", "profile", "timing"), failure)
    with pytest.raises(CannotCollectError, match="torch"):
        collected(tmp_path)


@pytest.mark.parametrize("tool", ["sanitizer", "ncu"])
def test_an_absent_tool_is_reported_before_anything_runs(world, tmp_path, tool):
    with pytest.raises(CannotCollectError):
        collected(tmp_path, **{tool: None})
    assert world.kinds == []


def test_what_was_not_built_is_not_observed(world, tmp_path):
    evidence = collected(tmp_path, builds=(make_build(entries=()),))
    assert evidence.observations == ()


def test_a_gpu_that_is_lost_in_the_middle_keeps_what_it_showed_before(world, tmp_path, monkeypatch):
    def run(spec, start=None):
        threading.Event().wait(0.05 if spec.kind == "probe" else 0.0)  # a busy machine
        if spec.kind == "profile":
            while not (start.sent or start.cancelled):  # as the real one
                threading.Event().wait(0.001)
            world.failures |= dict.fromkeys(("profile", "probe"), Missing(code=Code.CRASH, message="Xid 79"))
            monkeypatch.setattr(collect.nvml, "read", lost)
        return world.run(spec, start)

    def lost(gpu):
        raise CannotCollectError("GPU is lost")

    monkeypatch.setattr(child, "run", run)
    found = reasons(collected(tmp_path))
    assert found[Kind.CORRECTNESS] == found[Kind.SANITIZER] == {None}
    assert found[Kind.PROFILE] == found[Kind.TIMING] == {Code.DEVICE_UNHEALTHY}


@pytest.mark.parametrize(("cpus", "before"), [(16, ["timing"]), (4, [])])
def test_reports_are_read_while_kernels_are_timed_where_there_are_many_cpus(world, tmp_path, monkeypatch, cpus, before):
    timed, seen = threading.Event(), []
    real = collect.timing.collect

    def read(*_):
        timed.wait(5.0 if cpus == 16 else 0.0)
        seen.extend(["timing"] if timed.is_set() else [])
        return ()

    monkeypatch.setattr(collect.host, "cpus", lambda: cpus)
    monkeypatch.setattr(profile, "_actions", read)
    monkeypatch.setattr(collect.timing, "collect", lambda *arguments: timed.set() or real(*arguments))
    evidence = collected(tmp_path)
    assert seen == before
    assert {(observation.kind, observation.target) for observation in evidence.observations} == WANTED
