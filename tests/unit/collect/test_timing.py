import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashcore_ci.collect import comparison, isolation, process_runs, timing
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured, Missing

OK = None
CANDIDATES = SimpleNamespace(description=lambda _: SimpleNamespace(candidate=True))
TRUSTED = SimpleNamespace(description=lambda _: SimpleNamespace(candidate=()), protocol=SimpleNamespace(timing_processes=3))


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


def test_a_slope_is_named_if_all_processes_took_one():
    graph = {"ms": 0.003, "megacycles": 0.005, "mhz": 1980.0, "kept": 9, "dropped": 0, "std_percent": 0.3, "graph_launches": 41}
    single = {name: value for name, value in graph.items() if name != "graph_launches"}
    assert dict(timing._readings([graph, graph]))["graph/launches"] == Measured(value=41.0, unit="count")
    assert "graph/launches" not in dict(timing._readings([graph, single]))


def test_processes_that_launch_in_two_ways_are_no_sample(tmp_path):
    """Their times are of two kinds."""
    values = {"ms": 0.05, "megacycles": 0.09, "mhz": 1800.0, "kept": 9, "dropped": 0, "std_percent": 0.3}
    kinds = [values, {**values, "graph_launches": 16}]
    results = [WorkloadResult(values=of, missing=None, completed=None, result_file=Path("/r")) for of in kinds]
    session = SimpleNamespace(observation=lambda *_, **fields: fields["missing"])
    assert timing._observe(session, None, results, 2, []).code is Code.INVALID_RESULT
    assert timing._observe(session, None, results[1:] * 2, 2, []) is None


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

        def measure(self, number, workloads):
            self.events.append(("measure", number))
            return {}

        def results(self, number, workloads):
            return {}

    session = SimpleNamespace(workloads=lambda kind: (SimpleNamespace(id="w"),), progress=lambda text: None)
    session.observation = lambda *arguments, **fields: fields
    timing.collect(session, Timer())
    for number in range(2):
        assert Timer.events.index(("start", number + process_runs.AHEAD)) < Timer.events.index(("measure", number))


@pytest.mark.parametrize(
    ("cpus", "gib", "candidate", "started"),
    [
        (32, 140, ("c.py",), [(0, True), (1, True), (2, True)]),
        (8, 140, ("c.py",), [(0, False), (1, False)]),
        (32, 16, ("c.py",), [(0, False), (1, False)]),
        (32, 140, (), [(number, True) for number in range(5)]),
        (8, 140, (), [(0, False), (1, False)]),
    ],
)
def test_large_machines_make_the_contexts_of_candidates_ahead(tmp_path, monkeypatch, cpus, gib, candidate, started):
    plan = SimpleNamespace(
        protocol=SimpleNamespace(timing_processes=5), description=lambda name: SimpleNamespace(candidate=candidate)
    )
    timer = timing.Timer(SimpleNamespace(plan=plan, scratch=tmp_path, memory=gib << 30, gpus=("GPU-1",)))
    seen = []
    monkeypatch.setattr(timing.host, "cpus", lambda: cpus)
    monkeypatch.setattr(timer, "start", lambda number, workloads, *, ahead: seen.append((number, ahead)))
    timer.start_ahead((SimpleNamespace(id="w", subject="s"),), at_once=True)
    assert seen == (started if candidate and started[0][1] else [])
    seen.clear()
    timer.start_ahead((SimpleNamespace(id="w", subject="s"),))
    assert seen == started


def test_the_first_process_chooses_the_sets_for_all(tmp_path, monkeypatch):
    hints = []
    timer = timing.Timer(SimpleNamespace(plan=TRUSTED, scratch=tmp_path, memory=0))
    outcomes = iter([{"sets": 24, "batched": False}, {"sets": 4, "batched": True}, {"sets": 8, "batched": True}])

    def results(run):
        missing = lost(Code.CLOCKS_DISAGREE) if run.number == 0 else None
        return {"w": WorkloadResult(values=next(outcomes), missing=missing, completed=None, result_file=Path("/r"))}

    monkeypatch.setattr(timer._runs, "measure", lambda run, given, then=None: hints.append(dict(given)))
    monkeypatch.setattr(timer._runs, "results", results)
    for number in range(3):
        timer.measure(number, ())
    assert hints == [{}, {}, {"w": {"sets": 4, "batched": True}}]


def test_nothing_is_measured_while_a_process_makes_contexts(tmp_path, monkeypatch):
    over, waits = threading.Event(), []
    monkeypatch.setattr(isolation, "run_isolated", lambda *_, **__: over.wait(10) and {})
    runs = process_runs.ProcessRuns(tmp_path)
    run = process_runs.ProcessRun(
        name="t",
        number=0,
        session=SimpleNamespace(is_healthy=None, plan=CANDIDATES),
        workloads=(SimpleNamespace(subject="s"),),
        ahead=True,
    )
    runs.start(run)
    (tmp_path / "go-t.making").touch()

    def sleep(seconds):
        assert (tmp_path / "go-t.hold").exists()
        waits.append(seconds)
        if len(waits) == 3:
            (tmp_path / "go-t.made").touch()

    monkeypatch.setattr(process_runs.clock, "sleep", sleep)
    runs.hold()
    assert len(waits) == 3
    assert runs.contexts() == 2  # its own, and one of the candidate's
    (tmp_path / "go-t.made").unlink()
    over.set()
    runs.close()
    runs.hold()  # a process that ended makes none either
    assert len(waits) == 3
    assert runs.contexts() == 0


def test_a_process_that_hangs_while_it_starts_cuda_is_ended(tmp_path, monkeypatch):
    over, waits = threading.Event(), []
    monkeypatch.setattr(isolation, "run_isolated", lambda *_, **__: over.wait(10) and {})
    monkeypatch.setattr(process_runs, "MAKING_POLLS", 3)
    monkeypatch.setattr(process_runs.clock, "sleep", waits.append)
    runs = process_runs.ProcessRuns(tmp_path)
    session = SimpleNamespace(is_healthy=None, plan=CANDIDATES)
    runs.start(
        process_runs.ProcessRun(name="t", number=0, session=session, workloads=(SimpleNamespace(subject="s"),), ahead=True)
    )
    (tmp_path / "go-t.making").touch()
    runs.hold()
    assert len(waits) == 3
    assert runs._signals["t"].cancelled
    over.set()
    runs.close()


def test_the_next_process_starts_cuda_while_one_that_is_done_ends(tmp_path, monkeypatch):
    ends, seen = threading.Event(), []
    monkeypatch.setattr(isolation, "run_isolated", lambda *_, start, **__: ends.wait(10) and {})
    monkeypatch.setattr(process_runs.clock, "monotonic", lambda: 0.0)

    def sleep(seconds):
        seen.append((tmp_path / "go-b").exists())
        (tmp_path / "go-a.done").write_text('{"w": true, "v": true, "no workload of this run": true}')

    session = SimpleNamespace(is_healthy=None, seconds=lambda kind: 9.0)
    monkeypatch.setattr(process_runs.clock, "sleep", sleep)
    runs, workloads = process_runs.ProcessRuns(tmp_path), tuple(SimpleNamespace(subject="s", id=name) for name in "wv")
    first, then = (process_runs.ProcessRun(name=name, number=0, session=session, workloads=workloads) for name in "ab")
    runs.start(first)
    runs.start(then)

    def end_when_the_next_has_its_signal():
        while not (tmp_path / "go-b").exists():
            threading.Event().wait(0.001)
        ends.set()

    threading.Thread(target=end_when_the_next_has_its_signal).start()
    hints = {"v": {"batched": False}}
    runs.finish(first, hints, then=then)
    assert seen == [False]
    assert json.loads((tmp_path / "go-b").read_text()) == hints == {"v": {"batched": False}, "w": {"batched": True}}
    assert (tmp_path / "go-a.clear").exists()
    assert not (tmp_path / "go-b.clear").exists()  # it may start CUDA, but measures after the first has ended
    sent = (tmp_path / "go-b").stat().st_mtime_ns
    runs.finish(then)
    assert (tmp_path / "go-b.clear").exists()
    assert (tmp_path / "go-b").stat().st_mtime_ns == sent  # once
    runs.close()


def test_one_side_is_timed_by_the_shorter_rule_and_a_comparison_is_not(tmp_path):
    timer = timing.Timer(SimpleNamespace(plan=TRUSTED, scratch=tmp_path, memory=0))
    assert timer._run(0, ()).options == {"alone": True}
    timer.close()
    of_two = comparison._Round(number=0, sessions={"head": None}, workloads={"head": ()}, batched={})
    assert of_two.run("head").options == {"batched": {}}
