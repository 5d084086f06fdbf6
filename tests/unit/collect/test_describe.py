from pathlib import Path

import pytest
from factories import make_suite

from flashcore_ci.collect import describe
from flashcore_ci.collect.child import Ended
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError, SuiteError
from flashcore_ci.model.reading import Missing

ENTRY = {"symbol": "scale_f32", "source": "kernel/scale.cu", "max_registers": 64, "dynamic_shared_bytes": 0}
BUILD = {"library": "libscale.so", "launchers": [], "includes": [], "binding": [], "entries": [ENTRY]}
PROBLEMS = [{"workload": "big", "flops": 1, "bytes": 2.0, "entries": ["scale_f32"]}]
GOOD = {"description": {"build": BUILD, "problems": PROBLEMS}}


def ask(monkeypatch, outcome, *, fault=None, in_flight=None):
    outcomes = {} if outcome is None else {"scale": outcome}
    ended = Ended(outcomes=outcomes, environment={}, in_flight=in_flight, fault=fault, completed=None, result=Path("/r"))
    monkeypatch.setattr(describe.child, "run", lambda order: ended)
    return describe.describe(make_suite(), root=Path("/checkout"), python=Path("/python"), scratch=Path("/scratch"))


def test_a_description_becomes_a_record(monkeypatch):
    (description,) = ask(monkeypatch, GOOD)
    assert description.subject == "scale"
    assert description.file == "kernel/subjects/scale.py"
    assert description.build.entries[0].max_registers == 64
    assert description.problem("big").flops == 1.0


def test_a_subject_without_machine_code(monkeypatch):
    (description,) = ask(monkeypatch, {"description": {"build": None, "problems": PROBLEMS}})
    assert description.build is None


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"build": {**BUILD, "librray": "x"}, "problems": PROBLEMS}, "librray"),
        ({"build": {**BUILD, "library": None}, "problems": PROBLEMS}, "library"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "flops": "many"}]}, "flops"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "flops": float("nan")}]}, "JSON"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "entries": ["other"]}]}, "other"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "entries": []}]}, "launches no entry function"),
    ],
)
def test_what_a_subject_gets_wrong_is_an_error_of_the_suite(monkeypatch, said, named):
    with pytest.raises(SuiteError, match=named):
        ask(monkeypatch, {"description": said})


def test_what_many_workloads_get_wrong_is_one_line(monkeypatch):
    problems = [{**PROBLEMS[0], "workload": name, "entries": [entry]} for name, entry in (("a", "x"), ("b", "y"), ("c", "x"))]
    with pytest.raises(SuiteError) as caught:
        ask(monkeypatch, {"description": {"build": BUILD, "problems": problems}})
    assert caught.value.problems == (
        "kernel/subjects/scale.py: workload a and 1 more: launches x, which build() does not name",
        "kernel/subjects/scale.py: workload b: launches y, which build() does not name",
    )


def test_all_that_a_subject_refuses_is_said_at_once(monkeypatch):
    with pytest.raises(SuiteError) as caught:
        ask(monkeypatch, {"problems": ["one", "two"]})
    assert caught.value.problems == ("kernel/subjects/scale.py: one", "kernel/subjects/scale.py: two")


def test_a_subject_that_ends_the_process_is_named(monkeypatch):
    fault = Missing(code=Code.CRASH, message="the worker was killed by SIGSEGV")
    with pytest.raises(SuiteError, match=r"scale.py.*SIGSEGV"):
        ask(monkeypatch, None, fault=fault, in_flight="scale")


def test_a_worker_that_cannot_start_is_this_machines_fault(monkeypatch):
    with pytest.raises(CannotCollectError, match="no such file"):
        ask(monkeypatch, None, fault=Missing(code=Code.TOOL_FAILED, message="no such file"))


def test_a_stopped_run_stops(monkeypatch):
    with pytest.raises(InterruptedRunError):
        ask(monkeypatch, None, fault=Missing(code=Code.INTERRUPTED, message="the run was stopped"))
