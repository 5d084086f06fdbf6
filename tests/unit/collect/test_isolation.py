from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.collect import isolation
from flashcore_ci.collect.child import Ended
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing

WORKLOADS = tuple(make_workload(name) for name in "abcd")


class Workers:
    """Children of a scripted kind: some workloads crash, hang or are passed over, wherever they run."""

    def __init__(self, monkeypatch, *, fatal=(), skipped=(), fault=None):
        self.fatal = dict(fatal)
        self.skipped = skipped
        self.fault = fault
        self.ran = []
        monkeypatch.setattr(isolation.child, "run", self.run)

    def run(self, order, go=None):
        self.ran.append([workload.id for workload in order.workloads])
        outcomes = {}
        for workload in order.workloads:
            if self.fault or workload.id in self.fatal:
                fault = self.fault or Missing(code=self.fatal[workload.id], message="it ended")
                return self.ended(outcomes, fault, None if self.fault else workload.id)
            if workload.id not in self.skipped:
                outcomes[workload.id] = {"readings": {}}
        return self.ended(outcomes, None, None)

    @staticmethod
    def ended(outcomes, fault, in_flight):
        return Ended(outcomes=outcomes, environment={}, in_flight=in_flight, fault=fault, completed=None, result=Path("/r"))

    def all_of(self, *, healthy=True, workloads=WORKLOADS):
        outcomes = isolation.all_of(workloads, lambda some: SimpleNamespace(workloads=some), healthy=lambda: healthy, together=1)
        return {name: outcome.missing and outcome.missing.code for name, outcome in outcomes.items()}


def test_one_process_is_enough_when_nothing_happens(monkeypatch):
    workers = Workers(monkeypatch)
    assert workers.all_of() == dict.fromkeys("abcd")
    assert workers.ran == [["a", "b", "c", "d"]]


@pytest.mark.parametrize("fate", [Code.CRASH, Code.HANG])
def test_after_a_crash_or_hang_the_rest_run_apart(monkeypatch, fate):
    workers = Workers(monkeypatch, fatal={"b": fate})
    assert workers.all_of() == {"a": None, "b": fate, "c": None, "d": None}
    assert workers.ran == [["a", "b", "c", "d"], ["c"], ["d"]]


def test_one_bad_workload_never_hides_another(monkeypatch):
    workers = Workers(monkeypatch, fatal={"a": Code.CRASH, "c": Code.HANG})
    assert workers.all_of() == {"a": Code.CRASH, "b": None, "c": Code.HANG, "d": None}


def test_a_sick_machine_is_not_the_kernels_fault(monkeypatch):
    workers = Workers(monkeypatch, fatal={"b": Code.CRASH})
    unhealthy = Code.DEVICE_UNHEALTHY
    assert workers.all_of(healthy=False) == {"a": None, "b": unhealthy, "c": unhealthy, "d": unhealthy}
    assert len(workers.ran) == 1


@pytest.mark.parametrize("code", [Code.INTERRUPTED, Code.TOOL_FAILED, Code.INVALID_RESULT])
def test_what_is_no_crash_is_not_tried_again(monkeypatch, code):
    workers = Workers(monkeypatch, fault=Missing(code=code, message="m"))
    assert workers.all_of() == dict.fromkeys("abcd", code)
    assert len(workers.ran) == 1


def test_a_process_that_dies_before_the_first_workload_is_taken_apart(monkeypatch):
    workers = Workers(monkeypatch, fault=Missing(code=Code.CRASH, message="m"))
    assert workers.all_of() == dict.fromkeys("abcd", Code.CRASH)
    assert workers.ran[1:] == [["a"], ["b"], ["c"], ["d"]]


def test_a_workload_that_was_passed_over_has_no_result(monkeypatch):
    workers = Workers(monkeypatch, skipped=("c",))
    assert workers.all_of() == {"a": None, "b": None, "c": Code.INVALID_RESULT, "d": None}


@pytest.mark.parametrize("workloads", [WORKLOADS, WORKLOADS[3:]])
def test_the_last_or_only_workload_is_not_blamed_for_a_sick_machine_either(monkeypatch, workloads):
    workers = Workers(monkeypatch, fatal={"d": Code.CRASH})
    assert workers.all_of(healthy=False, workloads=workloads)["d"] is Code.DEVICE_UNHEALTHY


def test_a_machine_that_falls_ill_while_they_run_apart_is_to_blame(monkeypatch):
    Workers(monkeypatch, fatal={"b": Code.CRASH, "d": Code.HANG})
    health = iter([True, False])
    outcomes = isolation.all_of(WORKLOADS, lambda some: SimpleNamespace(workloads=some), healthy=lambda: next(health), together=1)
    codes = {name: outcome.missing and outcome.missing.code for name, outcome in outcomes.items()}
    assert codes == {"a": None, "b": Code.CRASH, "c": None, "d": Code.DEVICE_UNHEALTHY}


@pytest.mark.parametrize("scripted", [{"fatal": {"a": Code.HANG}}, {"fault": Missing(code=Code.HANG, message="before it began")}])
def test_one_alone_is_not_run_twice(monkeypatch, scripted):
    workers = Workers(monkeypatch, **scripted)
    assert workers.all_of(workloads=WORKLOADS[:1]) == {"a": Code.HANG}
    assert workers.ran == [["a"]]
