"""A whole collection, its workers and its machine scripted."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from evidence_factories import make_provenance
from factories import make_build, make_plan
from sound_gpu import SOUND

from flashcore_ci.adapters.nvml import User
from flashcore_ci.collect import child, collect, process_runs, profile, sanitizer
from flashcore_ci.collect.child import STOPPED, JobResult
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.identity import workload_identity
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind

STATE = replace(SOUND, uuid="GPU-1", reasons=(), users=())
CORRECT = {"readings": {"diff/max": 0.0, "error/ratio": 0.5, "finite/bad-values": 0, "repeat/differing-runs": 0}}
TIMED = {
    "ms": 0.6,
    "megacycles": 1.1,
    "mhz": 1800.0,
    "std_percent": 0.3,
    "kept": 60,
    "dropped": 0,
    "watts": 600.0,
    "reasons": {"0x4": 60},
}
OUTCOMES = {"correctness": CORRECT, "launch": {"launches": 2}, "control": {"status": 0}, "profile": {"runs": 1}, "timing": TIMED}
FACTS = {"torch": "2.11.0", "multiprocessors": 132, "l2": 62914560}


SICK = {"probe": {"missing": {"code": "device-unhealthy", "message": "the sum is wrong"}}}


class World:
    """What the machine does. Edit it before collecting."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.kinds = []
        self.outcomes = dict(OUTCOMES)
        self.failures = {}
        self.users = ()
        self.probe = {"probe": {"ok": True}}
        self.blind, self.gpus, self.sick = "", "GPU-1", ""

    def read(self, gpu):
        assert gpu in self.gpus
        return replace(STATE, users=self.users)

    def run(self, spec, start=None):
        if start is not None:
            while not start.sent and not start.cancelled:
                start.event.wait(0.01)
            if start.cancelled:
                return self.result({}, STOPPED)
        self.kinds.append(spec.kind)
        gpu = spec.variables["CUDA_VISIBLE_DEVICES"]
        if spec.kind == "probe" and gpu in self.gpus.split(","):
            return self.result(SICK if gpu == self.sick else self.probe, self.failures.get("probe"))
        assert gpu == self.gpus
        failure = self.failures.get(spec.kind)
        outcomes = {} if failure else {workload.id: dict(self.outcomes[spec.kind]) for workload in spec.workloads}
        return self.result(outcomes, failure)

    def result(self, outcomes, failure):
        file = self.folder / "result.json"
        file.write_text(json.dumps(outcomes), encoding="utf-8")
        return JobResult(outcomes=outcomes, environment=FACTS, in_flight=None, failure=failure, completed=None, result_file=file)


class StartSignal:
    """A start signal without a clock."""

    def __init__(self, file):
        import threading

        self.event = threading.Event()
        self.sent = self.cancelled = False

    def send(self, seconds):
        self.sent = True
        self.event.set()

    def cancel(self):
        self.cancelled = True
        self.event.set()


@pytest.fixture
def world(tmp_path, monkeypatch):
    scripted = World(tmp_path)
    monkeypatch.setattr(collect.nvml, "read", scripted.read)
    monkeypatch.setattr(collect.group.lock, "hold", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(collect, "_versions", lambda session: (("compute-sanitizer", "2026.4.0.0"), ("ncu", "2025.3.1.0")))
    monkeypatch.setattr(child, "run", scripted.run)
    monkeypatch.setattr(collect, "StartSignal", StartSignal)
    monkeypatch.setattr(process_runs, "StartSignal", StartSignal)
    clean = Measured(value=0.0, unit="count")
    monkeypatch.setattr(sanitizer.sanitizer, "read_findings", lambda *_, **__: clean)
    monkeypatch.setattr(sanitizer.positive_control, "why_unreported", lambda *_: scripted.blind)
    launches = sanitizer.ObservedLaunches(checked=("scale_f32",) * 2, others=())
    monkeypatch.setattr(sanitizer, "between_marks", lambda *_: launches)
    monkeypatch.setattr(profile.ncu, "import_reader", lambda tool: SimpleNamespace())
    monkeypatch.setattr(profile, "_actions", lambda *_: ())
    monkeypatch.setattr(profile, "_write_page", lambda *_: None)
    monkeypatch.setattr(profile.ncu, "make_readings", lambda *_: {"sol/dram": Measured(value=90.0, unit="%")})
    return scripted


def make_session(folder, **changes):
    values = {
        "plan": make_plan(),
        "builds": (make_build(),),
        "uuid": "GPU-1",
        "root": folder,
        "python": Path("/python"),
        "libraries": folder,
        "run_folder": folder / "run",
        "scratch": folder / "scratch",
        "lock_dir": folder,
        "origin": make_provenance(device=None, tools=()),
        "sanitizer": Path("/cs"),
        "ncu": Path("/ncu"),
        "progress": lambda line: None,
    }
    return Session(**{**values, **changes})


def collected(folder, **changes):
    return collect.collect(make_session(folder, **changes))


def reasons(evidence):
    """By kind, why observations are missing."""
    kinds = {observation.kind for observation in evidence.observations}
    return {kind: {o.missing and o.missing.code for o in evidence.observations if o.kind is kind} for kind in kinds}


WANTED = {
    (Kind.CORRECTNESS, "big"),
    (Kind.CORRECTNESS, "small"),
    (Kind.SANITIZER, "big"),
    (Kind.SANITIZER, "small"),
    (Kind.PROFILE, "big"),
    (Kind.TIMING, "big"),
}


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
        if spec.kind == "profile":
            world.failures |= dict.fromkeys(("profile", "probe"), Missing(code=Code.CRASH, message="Xid 79"))
            monkeypatch.setattr(collect.nvml, "read", lost)
        return world.run(spec, start)

    def lost(gpu):
        raise CannotCollectError("GPU is lost")

    monkeypatch.setattr(child, "run", run)
    found = reasons(collected(tmp_path))
    assert found[Kind.CORRECTNESS] == found[Kind.SANITIZER] == {None}
    assert found[Kind.PROFILE] == found[Kind.TIMING] == {Code.DEVICE_UNHEALTHY}
