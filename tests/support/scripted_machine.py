"""A machine and its workers that do what a test says, for a whole collection."""

import contextlib
import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from evidence_factories import make_provenance
from factories import make_build, make_plan
from sound_gpu import SOUND

from flashcore_ci.collect import child, collect, process_runs, profile, sanitizer
from flashcore_ci.collect.child import STOPPED, JobResult
from flashcore_ci.collect.session import Session
from flashcore_ci.model.reading import Measured
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
        self.mig, self.loads = False, {}
        self.users = ()
        self.probe = {"probe": {"ok": True}}
        self.blind, self.gpus, self.sick = "", "GPU-1", ""

    def read(self, gpu):
        assert gpu in self.gpus
        return replace(STATE, users=self.users, mig=self.mig)

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

    def send(self, seconds, hints=None):
        self.sent = True
        self.event.set()

    def release(self, seconds):
        assert self.sent

    def hold(self):
        pass

    def is_done(self):
        return False

    is_making = has_made = is_done

    def cancel(self):
        self.cancelled = True
        self.event.set()


@pytest.fixture
def world(tmp_path, monkeypatch):
    scripted = World(tmp_path)
    monkeypatch.setattr(collect.nvml, "read", scripted.read)
    monkeypatch.setattr(collect.nvml, "neighbours", lambda _: contextlib.nullcontext(scripted.loads))
    monkeypatch.setattr(collect.group.lock, "hold", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(collect, "_versions", lambda session: (("compute-sanitizer", "2026.4.0.0"), ("ncu", "2025.3.1.0")))
    monkeypatch.setattr(child, "run", scripted.run)
    monkeypatch.setattr(collect, "StartSignal", StartSignal)
    monkeypatch.setattr(process_runs, "StartSignal", StartSignal)
    monkeypatch.setattr(process_runs.clock, "sleep", lambda _: threading.Event().wait(0.001))
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
        "origin": lambda: make_provenance(device=None, tools=()),
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
