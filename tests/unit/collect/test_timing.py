import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.collect import process_runs, timing
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.process_runs import ProcessRun, ProcessRuns
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured, Missing

OK = None


def lost(code):
    return Missing(code=code, message="why")


@pytest.mark.parametrize(
    ("tries", "code"),
    [
        ([OK] * 5, None),
        ([], Code.TOO_FEW_PROCESSES),
        ([OK] * 4, Code.TOO_FEW_PROCESSES),
        ([OK] * 4 + [lost(Code.UNSETTLED)], Code.TOO_FEW_PROCESSES),
        ([lost(Code.UNSETTLED)] * 5, Code.UNSETTLED),
        ([lost(Code.THROTTLED)] * 3 + [lost(Code.UNSETTLED)] * 2, Code.THROTTLED),
        ([OK, lost(Code.CRASH), OK, OK, OK], Code.CRASH),
        ([OK, lost(Code.OUTPUT_CHANGED), lost(Code.UNSETTLED)], Code.OUTPUT_CHANGED),
        ([OK, OK, lost(Code.INTERRUPTED)], Code.INTERRUPTED),
        ([lost(Code.OUT_OF_MEMORY)] * 5, Code.OUT_OF_MEMORY),
    ],
)
def test_fewer_survivors_than_processes_is_missing(tries, code):
    found = timing.shortfall(tries, 5)
    assert (found and found.code) is code


def test_a_shortfall_says_how_many_survived():
    found = timing.shortfall([OK, OK, OK, lost(Code.UNSETTLED), OK], 5)
    assert found.message == "4 of 5 processes gave a sample. unsettled: why"


@pytest.mark.parametrize("value", [float("nan"), "nan", None])
def test_a_sample_that_is_no_finite_number_is_none(value):
    values = {"ms": 1.0, "megacycles": 1.8, "mhz": value}
    outcome = WorkloadResult(values=values, missing=None, completed=None, result_file=Path("/r"))
    assert process_runs.require_samples(outcome).missing.code is Code.INVALID_RESULT
    good = replace(outcome, values={**values, "mhz": 1800.0})
    assert process_runs.require_samples(good) is good


def test_readings_are_medians_over_processes():
    processes = [
        {"ms": ms, "megacycles": 1.0, "mhz": 1800.0, "kept": 60, "dropped": 0, "std_percent": 0.3} for ms in (1.0, 9.0, 2.0)
    ]
    readings = dict(timing._readings(processes))
    assert readings["time/gpu/cold"] == Measured(value=2.0, unit="ms")
    assert readings["blocks/kept"] == Measured(value=60.0, unit="count")
    assert "power/gpu" not in readings


def test_a_worker_that_cannot_see_throttling_says_so():
    assert "not seen" in timing._notes([], [{"ms": 1.0}])[0]
    assert timing._notes([], [{"ms": 1.0, "watts": 500.0, "reasons": {"0x44": 3}}]) == (
        "clocks were held by: power cap, hardware thermal slowdown",
    )


class Waiting:
    """Processes that make a context when they are told to, and then wait for their signal."""

    def __init__(self, monkeypatch):
        self.begun, self.warm, self.ran, self.lock = [], [], [], threading.Lock()
        monkeypatch.setattr(process_runs.isolation, "run_isolated", self.run)
        monkeypatch.setattr("flashcore_ci.adapters.clock.monotonic", lambda: 0.0)

    def run(self, workloads, make_job, *, is_healthy, at_once, start):
        options = make_job(workloads)
        with self.lock:
            self.begun.append(options["order"])
        if "warm" in options:
            self._wait(Path(options["warm"]), start)
            with self.lock:
                self.warm.append(options["order"])
            Path(options["warm"]).with_suffix(".ready").touch()
        self._wait(start.file, start)
        if not start.cancelled:
            self.ran.append(options["order"])
        return {}

    def _wait(self, file, start):
        while not file.exists() and not start.cancelled:
            threading.Event().wait(0.002)


def a_run(number):
    session = SimpleNamespace(
        uuid="GPU-1",
        difference_limits=lambda workloads: {},
        seconds=lambda kind: 60.0,
        is_healthy=lambda: True,
        job=lambda kind, name, workloads, seconds, options: options,
    )
    return ProcessRun(name=f"timing-{number}", number=number, session=session, workloads=(make_workload("w"),))


def test_contexts_are_made_before_the_first_process_is_timed(tmp_path, monkeypatch):
    waiting, runs = Waiting(monkeypatch), ProcessRuns(tmp_path, 3)
    for number in range(3):
        runs.start(a_run(number), warms_up=True)
    assert waiting.warm == []
    runs.warm_up()
    assert sorted(waiting.warm) == [0, 1, 2]
    assert waiting.ran == []
    for number in range(3):
        runs.finish(a_run(number))
    assert waiting.ran == [0, 1, 2]
    runs.close()


def test_processes_that_are_ahead_can_be_replaced(tmp_path, monkeypatch):
    waiting, runs = Waiting(monkeypatch), ProcessRuns(tmp_path, 3)
    for number in range(3):
        runs.start(a_run(number), warms_up=True)
    runs.warm_up()
    runs.finish(a_run(0))
    runs.forget()
    runs.start(a_run(1), warms_up=True)
    runs.warm_up()
    runs.finish(a_run(1))
    runs.close()
    assert waiting.ran == [0, 1]
    assert sorted(waiting.begun) == [0, 1, 1, 2]
    assert sorted(waiting.warm) == [0, 1, 1, 2]


@pytest.mark.parametrize(("cpus", "memory", "at_once"), [(16, 150 << 30, True), (2, 150 << 30, False), (16, 24 << 30, False)])
def test_all_processes_start_at_once_where_cpus_and_memory_are_plenty(tmp_path, monkeypatch, cpus, memory, at_once):
    monkeypatch.setattr(timing.host, "cpus", lambda: cpus)
    plan = SimpleNamespace(protocol=SimpleNamespace(timing_processes=5))
    timer = timing.Timer(SimpleNamespace(plan=plan, memory=memory, scratch=tmp_path, workloads=lambda kind: ()))
    started = []
    timer._runs.start = lambda run, warms_up: started.append((run.number, warms_up))
    timer.start(0, (), ahead=False)
    timer.start(1, ())
    assert started == [(number, at_once) for number in ((0, 1, 2, 3, 4) if at_once else (0, 1, 2))]
    timer.close()
