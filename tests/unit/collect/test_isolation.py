import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.collect import isolation
from flashcore_ci.collect.child import JobResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing

WORKLOADS = tuple(make_workload(name) for name in "abcd")


class Workers:
    """Scripted workers: some workloads crash, hang or are skipped, wherever they run."""

    def __init__(self, monkeypatch, *, fatal=(), skipped=(), failure=None):
        self.fatal = dict(fatal)
        self.skipped = skipped
        self.failure = failure
        self.ran = []
        monkeypatch.setattr(isolation.child, "run", self.run)

    def run(self, spec, start=None):
        self.ran.append([workload.id for workload in spec.workloads])
        outcomes = {}
        for workload in spec.workloads:
            if self.failure or workload.id in self.fatal:
                failure = self.failure or Missing(code=self.fatal[workload.id], message="it ended")
                return self.result(outcomes, failure, None if self.failure else workload.id)
            if workload.id not in self.skipped:
                outcomes[workload.id] = {"readings": {}}
        return self.result(outcomes, None, None)

    @staticmethod
    def result(outcomes, failure, in_flight):
        return JobResult(
            outcomes=outcomes, environment={}, in_flight=in_flight, failure=failure, completed=None, result_file=Path("/r")
        )

    def codes(self, *, is_healthy=lambda: True, workloads=WORKLOADS):
        results = isolation.run_isolated(
            workloads, lambda some: SimpleNamespace(workloads=some), is_healthy=is_healthy, at_once=1
        )
        return {name: result.missing and result.missing.code for name, result in results.items()}


def test_one_process_is_enough_when_nothing_happens(monkeypatch):
    workers = Workers(monkeypatch)
    assert workers.codes() == dict.fromkeys("abcd")
    assert workers.ran == [["a", "b", "c", "d"]]


@pytest.mark.parametrize("code", [Code.CRASH, Code.HANG])
def test_after_a_crash_or_hang_the_rest_run_alone(monkeypatch, code):
    workers = Workers(monkeypatch, fatal={"b": code})
    assert workers.codes() == {"a": None, "b": code, "c": None, "d": None}
    assert workers.ran == [["a", "b", "c", "d"], ["c"], ["d"]]


def test_one_bad_workload_never_hides_another(monkeypatch):
    workers = Workers(monkeypatch, fatal={"a": Code.CRASH, "c": Code.HANG})
    assert workers.codes() == {"a": Code.CRASH, "b": None, "c": Code.HANG, "d": None}


def test_an_unhealthy_machine_blames_no_kernel(monkeypatch):
    workers = Workers(monkeypatch, fatal={"b": Code.CRASH})
    unhealthy = Code.DEVICE_UNHEALTHY
    assert workers.codes(is_healthy=lambda: False) == {"a": None, "b": unhealthy, "c": unhealthy, "d": unhealthy}
    assert len(workers.ran) == 1


@pytest.mark.parametrize("code", [Code.INTERRUPTED, Code.TOOL_FAILED, Code.INVALID_RESULT])
def test_only_a_crash_or_hang_runs_again(monkeypatch, code):
    workers = Workers(monkeypatch, failure=Missing(code=code, message="m"))
    assert workers.codes() == dict.fromkeys("abcd", code)
    assert len(workers.ran) == 1


def test_a_process_that_dies_before_the_first_workload_runs_each_alone(monkeypatch):
    workers = Workers(monkeypatch, failure=Missing(code=Code.CRASH, message="m"))
    assert workers.codes() == dict.fromkeys("abcd", Code.CRASH)
    assert workers.ran[1:] == [["a"], ["b"], ["c"], ["d"]]


def test_a_skipped_workload_has_no_result(monkeypatch):
    workers = Workers(monkeypatch, skipped=("c",))
    assert workers.codes() == {"a": None, "b": None, "c": Code.INVALID_RESULT, "d": None}


@pytest.mark.parametrize("workloads", [WORKLOADS, WORKLOADS[3:]])
def test_the_last_or_only_workload_is_not_blamed_for_an_unhealthy_machine(monkeypatch, workloads):
    workers = Workers(monkeypatch, fatal={"d": Code.CRASH})
    assert workers.codes(is_healthy=lambda: False, workloads=workloads)["d"] is Code.DEVICE_UNHEALTHY


def test_a_machine_that_fails_while_they_run_alone_is_reported(monkeypatch):
    workers = Workers(monkeypatch, fatal={"b": Code.CRASH, "d": Code.HANG})
    health = iter([True, False])
    assert workers.codes(is_healthy=lambda: next(health)) == {"a": None, "b": Code.CRASH, "c": None, "d": Code.DEVICE_UNHEALTHY}


@pytest.mark.parametrize(
    "scripted", [{"fatal": {"a": Code.HANG}}, {"failure": Missing(code=Code.HANG, message="before it began")}]
)
def test_a_single_workload_is_not_run_twice(monkeypatch, scripted):
    workers = Workers(monkeypatch, **scripted)
    assert workers.codes(workloads=WORKLOADS[:1]) == {"a": Code.HANG}
    assert workers.ran == [["a"]]


def test_a_stopped_run_does_not_blame_the_machine(monkeypatch):
    dead = Missing(code=Code.RANK_DIED, message="rank 1 was killed by signal 9")
    result = isolation.WorkloadResult(values={}, missing=dead, completed=None, result_file=Path("r"))
    monkeypatch.setattr(isolation.child.process, "stopping", lambda: True)
    found = isolation._unless_unhealthy({"pair": result}, lambda: False)
    assert found["pair"].missing.code is Code.INTERRUPTED
    monkeypatch.setattr(isolation.child.process, "stopping", lambda: False)
    assert isolation._unless_unhealthy({"pair": result}, lambda: False)["pair"].missing.code is Code.DEVICE_UNHEALTHY
    assert isolation._unless_unhealthy({"pair": result}, lambda: True)["pair"].missing is dead


@pytest.mark.parametrize(("cpus", "at_once"), [(None, 4), (2, 4), (16, 4), (32, 8), (224, 12)])
def test_processes_at_a_time_fit_the_host_and_the_gpu(monkeypatch, cpus, at_once):
    if cpus is None:  # macOS
        monkeypatch.delattr(os, "sched_getaffinity")
        monkeypatch.setattr(os, "cpu_count", lambda: 8)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    assert runpy.run_path(isolation.__file__, run_name="again")["AT_ONCE"] == at_once
