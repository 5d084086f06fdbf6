import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashcore_ci.collect import comparison, isolation, process_runs, start_signal, timing
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


def test_the_next_process_starts_cuda_while_one_that_is_done_ends(tmp_path, monkeypatch):
    ends, seen = threading.Event(), []
    monkeypatch.setattr(isolation, "run_isolated", lambda *_, start, **__: ends.wait(10) and {})
    monkeypatch.setattr(process_runs.clock, "monotonic", lambda: 0.0)

    def sleep(seconds):
        seen.append((tmp_path / "go-b").exists())
        (tmp_path / "go-a.done").touch()

    session = SimpleNamespace(is_healthy=None, seconds=lambda kind: 9.0)
    monkeypatch.setattr(process_runs.clock, "sleep", sleep)
    runs, workloads = process_runs.ProcessRuns(tmp_path), (SimpleNamespace(subject="s"),)
    first, then = (process_runs.ProcessRun(name=name, number=0, session=session, workloads=workloads) for name in "ab")
    runs.start(first)
    runs.start(then)

    def end_when_the_next_has_its_signal():
        while not (tmp_path / "go-b").exists():
            threading.Event().wait(0.001)
        ends.set()

    threading.Thread(target=end_when_the_next_has_its_signal).start()
    runs.finish(first, then=then)
    assert seen == [False]
    assert (tmp_path / "go-a.clear").exists()
    assert not (tmp_path / "go-b.clear").exists()  # it may start CUDA, but measures after the first has ended
    sent = (tmp_path / "go-b").stat().st_mtime_ns
    runs.finish(then)
    assert (tmp_path / "go-b.clear").exists()
    assert (tmp_path / "go-b").stat().st_mtime_ns == sent  # once
    runs.close()


@pytest.fixture
def three_processes(tmp_path, monkeypatch):
    """A session on a large machine, and what its three timing processes did. Process 0 fails on the workloads in ``bad``."""
    workloads = tuple(SimpleNamespace(id=name, subject="s") for name in "ab")
    session = SimpleNamespace(
        is_healthy=None, seconds=lambda _: 30.0, plan=TRUSTED, scratch=tmp_path, memory=80 << 30, gpus=("g",)
    )
    session.workloads, session.progress = lambda _: workloads, lambda _: None
    session.happened, session.bad, session.bad_in = [], set(), {0, 1, 2}

    def process(workloads, make_job, *, start, **_):
        number = int(start.file.name.rpartition("-")[2])
        session.happened.append(f"start {number} {''.join(workload.id for workload in workloads)}")
        while not start.file.with_name(f"{start.file.name}.clear").exists():
            if start.cancelled:
                return {}
            threading.Event().wait(0.001)
        session.happened.append(f"measure {number}")
        failed = {workload.id for workload in workloads if workload.id in session.bad and number in session.bad_in}
        for word in () if failed else ("stays", "done"):
            start.file.with_name(f"{start.file.name}.{word}").touch()
        while not (failed or start.cancelled or start.file.with_name(f"{start.file.name}.end").exists()):
            threading.Event().wait(0.001)
        session.happened.append(f"end {number}")
        values, missing = {"ms": 1.0, "megacycles": 1.0, "mhz": 1.0}, Missing(code=Code.RAISED, message="planted")
        of = {w.id: ({}, missing) if w.id in failed else (values, None) for w in workloads}
        return {
            name: WorkloadResult(values=found, missing=why, completed=None, result_file=tmp_path / "no")
            for name, (found, why) in of.items()
        }

    monkeypatch.setattr(timing.host, "cpus", lambda: 16)
    monkeypatch.setattr(process_runs.clock, "monotonic", lambda: 0.0)
    monkeypatch.setattr(process_runs.clock, "sleep", lambda _: threading.Event().wait(0.001))
    monkeypatch.setattr(isolation, "run_isolated", process)
    monkeypatch.setattr(
        timing, "_observe", lambda session, workload, results, *_: (workload.id, [one.missing for one in results])
    )
    session.timer = timing.Timer(session)
    yield session
    session.timer.close()


def test_processes_that_measured_end_together_after_the_last_one(three_processes):
    timer = three_processes.timer
    timer.start_ahead(three_processes.workloads("timing"))
    assert sorted(three_processes.happened) == ["start 0 ab", "start 1 ab", "start 2 ab"]
    found = timing.collect(three_processes, timer)
    assert three_processes.happened[3:6] == ["measure 0", "measure 1", "measure 2"]
    assert sorted(three_processes.happened[6:]) == ["end 0", "end 1", "end 2"]
    assert found == (("a", [None] * 3), ("b", [None] * 3))


def test_what_failed_is_not_timed_by_processes_that_wait(three_processes):
    three_processes.bad = {"b"}
    timer = three_processes.timer
    timer.start_ahead(three_processes.workloads("timing"))
    found = timing.collect(three_processes, timer)
    assert three_processes.happened[3:5] == ["measure 0", "end 0"]
    assert [one for one in three_processes.happened if one.startswith("start") and one.endswith(" a")] == [
        "start 1 a",
        "start 2 a",
    ]
    assert dict(found)["a"] == [None] * 3
    assert [one.code for one in dict(found)["b"]] == [Code.RAISED]


def test_processes_that_stay_do_not_end_when_another_one_fails(three_processes):
    three_processes.bad, three_processes.bad_in = {"b"}, {1}
    timer = three_processes.timer
    timer.start_ahead(three_processes.workloads("timing"))
    found = timing.collect(three_processes, timer)
    happened = [one for one in three_processes.happened if not one.startswith("start")]
    assert happened[:4] == ["measure 0", "measure 1", "end 1", "measure 2"]
    assert sorted(happened[4:]) == ["end 0", "end 2"]
    assert dict(found)["a"] == [None] * 3
    assert [one and one.code for one in dict(found)["b"]] == [None, Code.RAISED]


@pytest.mark.parametrize(("cpus", "memory", "candidate"), [(15, 80, False), (16, 39, False), (16, 80, True)])
def test_none_stays_on_a_small_machine_or_next_to_candidates(three_processes, monkeypatch, cpus, memory, candidate):
    monkeypatch.setattr(timing.host, "cpus", lambda: cpus)
    three_processes.memory = memory << 30
    three_processes.plan = SimpleNamespace(protocol=TRUSTED.protocol, description=lambda _: SimpleNamespace(candidate=candidate))
    assert not three_processes.timer._run(0, three_processes.workloads("timing")).stays


def test_no_time_limit_runs_while_a_process_stays(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(start_signal.clock, "monotonic", lambda: now[0])
    signal = start_signal.StartSignal(tmp_path / "go")
    signal.send(5.0)
    signal.suspend()
    now[0] = 1e6
    assert not signal.expired()
    signal.let_end(5.0)
    now[0] += 5.5
    assert signal.expired()


def test_one_side_is_timed_by_the_shorter_rule_and_a_comparison_is_not(tmp_path):
    timer = timing.Timer(SimpleNamespace(plan=TRUSTED, scratch=tmp_path, memory=0))
    assert timer._run(0, ()).options == {"alone": True}
    timer.close()
    of_two = comparison._Round(number=0, sessions={"head": None}, workloads={"head": ()}, batched={})
    assert of_two.run("head").options == {"batched": {}}
