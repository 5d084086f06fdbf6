from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashcore_ci.collect import process_runs, timing
from flashcore_ci.collect.isolation import WorkloadResult
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


def test_two_processes_import_while_one_measures():
    class Timer:
        processes, events = 4, []

        def start(self, number, workloads):
            self.events.append(("start", number))

        def finish(self, number, workloads):
            self.events.append(("finish", number))
            return {}

    session = SimpleNamespace(workloads=lambda kind: (SimpleNamespace(id="w"),), progress=lambda text: None)
    session.observation = lambda *arguments, **fields: fields
    timing.collect(session, Timer())
    for number in range(2):
        assert Timer.events.index(("start", number + process_runs.AHEAD)) < Timer.events.index(("finish", number))
