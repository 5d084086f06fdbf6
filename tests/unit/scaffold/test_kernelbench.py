import foreign_files
import pytest

from flashcore_ci.scaffold import kernelbench
from flashcore_ci.scaffold.foreign import ForeignError


def read(folder, text=foreign_files.MODEL, candidate=None, name="7_Scale it!.py"):
    (folder / name).write_text(text)
    return kernelbench.read(folder / name, origin="x", candidate=candidate)


def test_without_a_candidate_the_model_is_compiled(tmp_path):
    problem = read(tmp_path)
    assert (problem.name, problem.candidate.kind, problem.source) == ("7_Scale_it", "compiled", foreign_files.MODEL)


def test_a_candidate_has_model_new(tmp_path):
    assert read(tmp_path, candidate=("k/new.py", foreign_files.MODEL_NEW)).candidate.file == "k/new.py"


@pytest.mark.parametrize(
    ("text", "candidate", "why"),
    [
        ("def get_inputs():\n    return []\n", None, "no class Model"),
        ("class Model:\n    pass\n", None, "no function get_inputs"),
        ("class Model(:\n", None, "not Python"),
        (foreign_files.MODEL, ("k.py", "class Other:\n    pass\n"), "no class ModelNew"),
        (foreign_files.MODEL, ("k.py", foreign_files.MODEL.replace("Model", "ModelNew")), "the reference Model itself"),
    ],
)
def test_what_cannot_be_imported_says_why(tmp_path, text, candidate, why):
    with pytest.raises(ForeignError, match=why):
        read(tmp_path, text, candidate)


def test_only_problems_are_recognised():
    assert kernelbench.is_problem(foreign_files.MODEL)
    assert not kernelbench.is_problem("def get_inputs(): ...")
    assert not kernelbench.is_problem("class Model: ...")
