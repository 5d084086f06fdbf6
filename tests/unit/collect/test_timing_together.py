"""Timing processes that wait for the last one."""

import threading
from types import SimpleNamespace

import pytest

from flashcore_ci.collect import isolation, process_runs, start_signal, timing
from flashcore_ci.collect.child import JobResult
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing

CRASH = Missing(code=Code.CRASH, message="the worker was killed by SIGSEGV")
TRUSTED = SimpleNamespace(description=lambda _: SimpleNamespace(candidate=()), protocol=SimpleNamespace(timing_processes=3))


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


def test_what_died_at_its_end_after_it_stayed_is_not_timed_again(tmp_path, monkeypatch):
    """Others measure or end at that time, so such times would be longer."""
    signal, runs = start_signal.StartSignal(tmp_path / "go"), []
    died = JobResult(
        outcomes={}, environment={}, in_flight=None, failure=CRASH, completed=None, result_file=tmp_path / "no"
    )  # the results of a process that died do not count
    monkeypatch.setattr(isolation.child, "run", lambda job, start=None: runs.append(job) or died)
    workloads = tuple(SimpleNamespace(id=name) for name in "ab")

    def codes():
        runs.clear()
        found = isolation.run_isolated(
            workloads, lambda some: SimpleNamespace(workloads=some), is_healthy=lambda: True, at_once=1, start=signal
        )
        return [result.missing.code for result in found.values()]

    assert (codes(), len(runs)) == ([Code.CRASH] * 2, 3)
    for word in ("stays", "done"):
        signal.file.with_name(f"go.{word}").touch()
    assert (codes(), len(runs)) == ([Code.CRASH] * 2, 1)


def test_what_a_process_chose_is_known_to_the_next_even_if_it_failed_somewhere(tmp_path, monkeypatch):
    """Such a process says nothing itself. Then a calibration mixed graphs and single launches in one series."""
    values = {"ms": 1.0, "megacycles": 1.0, "mhz": 1.0, "batched": True}
    found = {
        name: WorkloadResult(values=of, missing=why, completed=None, result_file=tmp_path / "no")
        for name, of, why in (("a", values, None), ("b", {}, Missing(code=Code.UNSETTLED, message="drift")))
    }
    monkeypatch.setattr(isolation, "run_isolated", lambda *_, **__: found)
    monkeypatch.setattr(start_signal.clock, "monotonic", lambda: 0.0)
    monkeypatch.setattr(process_runs.clock, "sleep", lambda _: None)
    session = SimpleNamespace(seconds=lambda _: 30.0, plan=TRUSTED, is_healthy=None)
    runs, hints = process_runs.ProcessRuns(tmp_path), {}
    works = tuple(SimpleNamespace(id=name, subject="s") for name in "ab")
    runs.finish(process_runs.ProcessRun(name="calibrate-0", number=0, session=session, workloads=works), hints)
    runs.close()
    assert hints == {"a": {"sets": None, "batched": True}}
