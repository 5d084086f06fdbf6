from pathlib import Path

import pytest
from factories import make_suite

from flashcore_ci.collect import describe
from flashcore_ci.collect.child import JobResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError, SuiteError
from flashcore_ci.model.options import CompileOptions
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Ridge

ENTRY = {"symbol": "scale_f32", "source": "kernel/scale.cu", "max_registers": 64, "dynamic_shared_bytes": 0}
BUILD = {"library": "libscale.so", "launchers": [], "includes": [], "binding": [], "entries": [ENTRY]}
PROBLEMS = [{"workload": "big", "flops": 1, "bytes": 2.0, "entries": ["scale_f32"]}]
GOOD = {"description": {"build": BUILD, "problems": PROBLEMS}}


def describe_with(monkeypatch, outcome, *, failure=None, in_flight=None, suite=None):
    outcomes = {} if outcome is None else {"scale": outcome}
    result = JobResult(
        outcomes=outcomes, environment={}, in_flight=in_flight, failure=failure, completed=None, result_file=Path("/r")
    )
    monkeypatch.setattr(describe.child, "run", lambda spec: result)
    return describe.describe(suite or make_suite(), root=Path("/checkout"), python=Path("/python"), scratch=Path("/scratch"))


def test_a_description_becomes_a_record(monkeypatch):
    (description,) = describe_with(monkeypatch, GOOD)
    assert description.subject == "scale"
    assert description.file == "kernel/subjects/scale.py"
    assert description.build.entries[0].max_registers == 64
    assert description.problem("big").flops == 1.0


def test_a_subject_without_machine_code(monkeypatch):
    (description,) = describe_with(monkeypatch, {"description": {"build": None, "problems": PROBLEMS}})
    assert description.build is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"build": {**BUILD, "librray": "x"}, "problems": PROBLEMS}, "librray"),
        ({"build": {**BUILD, "library": None}, "problems": PROBLEMS}, "library"),
        ({"build": {**BUILD, "entries": [{**ENTRY, "max_registers": 0}]}, "problems": PROBLEMS}, "max_registers is 0"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "flops": "many"}]}, "flops"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "flops": float("nan")}]}, "JSON"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "entries": ["other"]}]}, "other"),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "entries": []}]}, "launches no entry function"),
    ],
)
def test_a_wrong_description_is_a_suite_error(monkeypatch, given, named):
    with pytest.raises(SuiteError, match=named):
        describe_with(monkeypatch, {"description": given})


def test_a_problem_of_many_workloads_is_one_line(monkeypatch):
    problems = [{**PROBLEMS[0], "workload": name, "entries": [entry]} for name, entry in (("a", "x"), ("b", "y"), ("c", "x"))]
    with pytest.raises(SuiteError) as caught:
        describe_with(monkeypatch, {"description": {"build": BUILD, "problems": problems}})
    assert caught.value.problems == (
        "kernel/subjects/scale.py: workload a and 1 more: launches x, which build() does not name",
        "kernel/subjects/scale.py: workload b: launches y, which build() does not name",
    )


def test_all_problems_of_a_subject_are_reported_at_once(monkeypatch):
    with pytest.raises(SuiteError) as caught:
        describe_with(monkeypatch, {"problems": ["one", "two"]})
    assert caught.value.problems == ("kernel/subjects/scale.py: one", "kernel/subjects/scale.py: two")


def test_a_subject_that_ends_the_process_is_named(monkeypatch):
    failure = Missing(code=Code.CRASH, message="the worker was killed by SIGSEGV")
    with pytest.raises(SuiteError, match=r"scale.py.*SIGSEGV"):
        describe_with(monkeypatch, None, failure=failure, in_flight="scale")


def test_a_worker_that_cannot_start_is_this_machines_fault(monkeypatch):
    with pytest.raises(CannotCollectError, match="no such file"):
        describe_with(monkeypatch, None, failure=Missing(code=Code.TOOL_FAILED, message="no such file"))


def test_a_stopped_run_stops(monkeypatch):
    with pytest.raises(InterruptedRunError):
        describe_with(monkeypatch, None, failure=Missing(code=Code.INTERRUPTED, message="the run was stopped"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"build": {**BUILD, "librray": "x"}, "problems": PROBLEMS}, 'unknown key "librray" (did you mean "library"?)'),
        (
            {"build": {k: v for k, v in BUILD.items() if k != "binding"}, "problems": PROBLEMS},
            'build(): the key "binding" is missing',
        ),
        ({"build": {**BUILD, "entries": [{**ENTRY, "symbl": 1}]}, "problems": PROBLEMS}, 'build(): entries: unknown key "symbl"'),
        ({"build": BUILD, "problems": [{**PROBLEMS[0], "flop": 1}]}, 'problem(): unknown key "flop" (did you mean "flops"?)'),
        ({"build": 3, "problems": PROBLEMS}, "build() returns int: return a dict, or None"),
        ({"build": {**BUILD, "library": 3}, "problems": PROBLEMS}, "build.library: text in quotes is needed"),
    ],
)
def test_wrong_keys_are_named_in_plain_words(monkeypatch, given, message):
    with pytest.raises(SuiteError) as caught:
        describe_with(monkeypatch, {"description": given})
    assert message in str(caught.value)
    assert "Input should" not in str(caught.value)
    assert "flashcore-ci plan" in caught.value.fix


def test_a_line_of_the_worker_gets_the_whole_path(monkeypatch):
    with pytest.raises(SuiteError, match=r"^kernel/subjects/scale.py:7: KeyError"):
        describe_with(monkeypatch, {"problems": ["scale.py:7: KeyError: 'n'"]})


def test_files_that_are_not_there_are_named(monkeypatch, tmp_path):
    descriptions = describe_with(monkeypatch, GOOD)
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/scales.cu").touch()
    expected = (
        'kernel/subjects/scale.py: build(): entries: kernel/scale.cu: there is no such file (did you mean "kernel/scales.cu"?)'
    )
    assert describe.find_absent_files(descriptions, tmp_path) == [expected]
    (tmp_path / "kernel/scale.cu").touch()
    assert describe.find_absent_files(descriptions, tmp_path) == []


def options_with(monkeypatch, given, **suite):
    outcome = {"description": {"build": {**BUILD, **given}, "problems": PROBLEMS}}
    (description,) = describe_with(monkeypatch, outcome, suite=make_suite(**suite))
    return description.build.compile


def test_a_subject_says_how_it_is_compiled_or_else_its_suite_does(monkeypatch):
    own = {"compile": {"architectures": ["sm_90", "sm_80"], "optimization": 1}}
    of_suite = CompileOptions(architectures=("sm_90a",), fast_math=True)
    found = options_with(monkeypatch, own, build=of_suite)
    assert (found.architectures, found.optimization, found.fast_math) == (("sm_90",), 1, False)
    assert options_with(monkeypatch, {}, build=of_suite) == of_suite
    assert options_with(monkeypatch, {}) == CompileOptions(architectures=("sm_90a",))


@pytest.mark.parametrize(
    ("compile_options", "device", "why"),
    [
        ({"fastmath": True}, "NVIDIA H200", 'scale.py: build\\(\\): unknown option "fastmath" \\(did you mean "fast_math"'),
        (["-w"], "NVIDIA H200", "build\\(\\): compile: it must be a table"),
        ({"architectures": ["sm_90a"]}, "NVIDIA A100 80GB PCIe", "it is built for sm_90a only, and NVIDIA A100 80GB PCIe has"),
        ({}, "NVIDIA H201", "the device NVIDIA H201 is not known"),
    ],
)
def test_wrong_options_and_another_device_are_suite_errors(monkeypatch, compile_options, device, why):
    ridge = Ridge(device=device, flops=1e15, bandwidth=5e12)
    with pytest.raises(SuiteError, match=why):
        options_with(monkeypatch, {"compile": compile_options}, ridge=ridge)
