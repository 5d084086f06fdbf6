import ast
import tomllib
from types import SimpleNamespace

import foreign_files
import pytest

from flashcore_ci.build import python_text
from flashcore_ci.scaffold import kernelbench, texts
from flashcore_ci.suite.loader import load


def executed(text):
    space = {"__name__": "subject", "__file__": "/repo/gates/x/definition.py"}
    exec(compile(text, "definition.py", "exec"), space)  # what is written here
    return SimpleNamespace(**space)


def model_problem(folder):
    (folder / "m.py").write_text(foreign_files.MODEL)
    return kernelbench.read(folder / "m.py", origin="x", candidate=None)


@pytest.fixture(params=["compiled", "solved", "model"])
def problem(request, tmp_path):
    if request.param == "model":
        return model_problem(tmp_path)
    solved = foreign_files.solution() if request.param == "solved" else None
    return foreign_files.problems(tmp_path, solved=solved)[0]


def test_both_sides_are_python_that_has_a_digest(problem):
    works = foreign_files.works_of(problem)
    for write in (texts.definition, texts.candidate):
        text = write(problem, works, folder="gates/x")
        ast.parse(text)
        assert python_text.find_problem(text) is None


def test_the_definition_states_the_estimate_and_marks_it(problem):
    module = executed(texts.definition(problem, foreign_files.works_of(problem), folder="gates/x"))
    work = module.problem(problem.cases[0].params)
    assert (work["flops"], work["bytes"], work["estimated"], work["output_shapes"]) == (12.0, 34.0, True, ["y float16[3, 4]"])
    assert module.build(None) is None
    with pytest.raises(ValueError, match="no case has these parameters"):
        module.problem({"rows": 999})


def test_the_suite_is_valid_and_trusts_nothing(problem, tmp_path):
    sides = {"d.py": ("build", "inputs", "outputs", "problem", "reference"), "c.py": ("load", "run")}
    arguments = {"build": "root", "problem": "params", "inputs": "params, seed", "run": "inputs, outputs", "load": "library"}
    for name, functions in sides.items():
        lines = (f"def {each}({arguments.get(each, 'inputs')}): return dict(given)\n" for each in functions)
        (tmp_path / name).write_text("".join(lines))
    file = tmp_path / "s.toml"
    file.write_text(texts.suite(problem, {"definition": "d.py"}, ("c.py",)))
    suite = load(file, root=tmp_path)
    assert (suite.subjects[0].trust, suite.subjects[0].candidate) == ("none", ("c.py",))
    assert [workload.id for workload in suite.workloads] == [f"{problem.name}-{case.id}" for case in problem.cases]


def test_the_tolerance_of_the_source_is_advisory(tmp_path):
    works = (foreign_files.workload(tolerance={"max_atol": 0.25}),)
    table = tomllib.loads(texts.suite(foreign_files.problems(tmp_path, works=works)[0], {"definition": "d.py"}, ("c.py",)))
    limit = next(gate for gate in table["gate"] if gate["id"] == "max-diff")["limits"][0]
    assert (limit["value"], limit["severity"]) == (0.25, "advisory")


@pytest.mark.parametrize("text", ["a'''b\\", "'", "\\'''", "x\r\ny\x0c\ufeff", '"""', "\\\n", "a\\" * 5, "", "é\u202e"])
def test_any_text_is_a_literal_that_comes_back(text):
    written = texts.literal(text)
    assert ast.literal_eval(written) == text
    assert python_text.find_problem(f"SOURCE = {written}\n") is None
