import json

import foreign_files
import pytest

from flashcore_ci.scaffold import definitions
from flashcore_ci.scaffold.foreign import ForeignError


def refused(folder, **parts):
    with pytest.raises(ForeignError) as error:
        foreign_files.problems(folder, **parts)
    return str(error.value)


def test_axes_scalars_and_expressions_are_resolved(tmp_path):
    (problem,) = foreign_files.problems(tmp_path)
    assert problem.cases[0].axes == {"rows": 3, "h": 4, "twice": 6}
    assert problem.cases[0].params == {"rows": 3, "eps": 0.5}
    assert problem.inputs["eps"] == (None, "float32")
    assert (problem.candidate.kind, problem.outputs) == ("compiled", ("y",))


def test_a_solution_is_the_candidate_and_the_tolerance_the_smallest(tmp_path):
    works = (foreign_files.workload(tolerance={"max_atol": 0.5}), foreign_files.workload(5, tolerance={"max_atol": 0.25}))
    (problem,) = foreign_files.problems(tmp_path, solved=foreign_files.solution(), works=works)
    assert (problem.candidate.kind, problem.candidate.entry, problem.candidate.into) == ("function", "scaled", False)
    assert problem.tolerance == 0.25


def test_two_solutions_are_two_problems(tmp_path):
    file = foreign_files.written(tmp_path, solved=foreign_files.solution())
    (tmp_path / "solution_b.json").write_text(json.dumps(foreign_files.solution()))
    assert [p.name for p in definitions.read(file, origin="x", most=20)] == ["scaled_h4-solution", "scaled_h4-solution_b"]


def test_a_data_set_of_flashinfer_bench_is_read(tmp_path):
    folder = tmp_path / "set/definitions/op"
    folder.mkdir(parents=True)
    (folder / "scaled_h4.json").write_text(json.dumps(foreign_files.definition()))
    trace = {"definition": "scaled_h4", "solution": None, "workload": foreign_files.workload()}
    lines = tmp_path / "set/workloads/op/scaled_h4.jsonl"
    lines.parent.mkdir(parents=True)
    lines.write_text(json.dumps(trace))
    (problem,) = definitions.read(folder / "scaled_h4.json", origin="x", most=20)
    assert problem.cases[0].params == {"rows": 3, "eps": 0.5}


def test_equal_workloads_count_once_and_more_are_omitted(tmp_path):
    works = tuple(foreign_files.workload(rows) for rows in (3, 3, 4))
    (problem,) = foreign_files.problems(tmp_path, works=works)
    assert [case.params["rows"] for case in problem.cases] == [3, 4]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"axes": {"rows": {"type": "var"}, "h": {"type": "expr", "expression": "9**9**9"}}}, "exponent"),
        ({"axes": {"rows": {"type": "var"}, "h": {"type": "expr", "expression": "__import__('os')"}}}, "only numbers"),
        ({"axes": {"rows": {"type": "var"}, "h": {"type": "expr", "expression": "rows / 2"}}}, "not a size"),
        ({"axes": {"rows": {"type": "var"}}}, "axis 'h'"),
        ({"reference": "def run(x, w):\n    return x\n"}, "takes 2 inputs"),
        ({"reference": "def other(x, w, eps):\n    return x\n"}, "no function run made by def (it has: other)"),
        ({"reference": "def run(x, w, eps:\n"}, "not Python: line 1"),
        ({"outputs": {"y": {"shape": None, "dtype": "float32"}}}, "scalar"),
        ({"outputs": {"y": {"shape": ["h"], "dtype": "float4_e2m1"}}}, "float4_e2m1"),
        ({"custom_inputs_entrypoint": "draw"}, "no function draw"),
    ],
)
def test_what_cannot_be_imported_says_why(tmp_path, changes, why):
    assert why in refused(tmp_path, made=foreign_files.definition(**changes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"axes": {}}, "axis rows no value"),
        ({"axes": {"rows": -1}}, "at least 0 is needed"),
        ({"axes": {"rows": 0}}, "gives the axis rows 0, so x has no element"),
        ({"inputs": {"x": {"type": "safetensors", "path": "p", "tensor_key": "k"}}}, "safetensors"),
        ({"inputs": {"x": {"type": "random"}}}, "a scalar, or lacks it"),
    ],
)
def test_a_wrong_workload_says_why(tmp_path, changes, why):
    assert why in refused(tmp_path, works=(foreign_files.workload(**changes),))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"entry_point": "kernel.py::other"}, "no function other"),
        ({"entry_point": "else.py::scaled"}, "is not FILE::FUNCTION"),
        ({"languages": ["cuda"], "language": "cuda", "binding": "tvm-ffi"}, "binding 'tvm-ffi'"),
    ],
)
def test_a_wrong_solution_says_why(tmp_path, changes, why):
    assert why in refused(tmp_path, solved=foreign_files.solution(**changes))


def test_a_c_solution_is_built_in_the_candidate(tmp_path):
    solved = foreign_files.solution("int main;", "main.cpp", languages=["cuda_cpp"], entry_point="main.cpp::run", binding="torch")
    (problem,) = foreign_files.problems(tmp_path, solved=solved)
    assert problem.candidate.kind == "extension"


@pytest.mark.parametrize("line", ["{", '{"axes" 3}', "[]", "{" * 100_000, '{"axes": {}, "axes": {}}'])
def test_a_damaged_workload_line_is_named(tmp_path, line):
    file = foreign_files.written(tmp_path)
    (tmp_path / "workload.jsonl").write_text(json.dumps(foreign_files.workload()) + "\n" + line + "\n")
    with pytest.raises(ForeignError, match=r"^workload.jsonl line 2"):
        list(definitions.read(file, origin="x", most=20))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', '{"name": 1}'])
def test_a_broken_definition_is_one_line(tmp_path, text):
    file = foreign_files.written(tmp_path)
    file.write_text(text)
    with pytest.raises(ForeignError) as error:
        list(definitions.read(file, origin="x", most=20))
    assert "\n" not in str(error.value)
