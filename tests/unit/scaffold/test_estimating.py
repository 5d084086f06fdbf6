from types import SimpleNamespace

import foreign_files
import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.reading import Missing
from flashcore_ci.scaffold import estimating

GOOD = {"flops": 1.0, "bytes": 2.0, "outputs": {"y": [[3], "float32"]}, "random": "", "init": "[]"}


def estimated(tmp_path, monkeypatch, *answers):
    """Estimate one problem, with these answers of workers."""
    (problem,) = foreign_files.problems(tmp_path)
    left = iter(answers)

    def run(_):
        return SimpleNamespace(**{"outcomes": {}, "in_flight": None, "failure": None, **next(left)})

    monkeypatch.setattr(estimating.child, "run", run)
    folders = {"python": tmp_path, "scratch": tmp_path, "root": tmp_path}
    return estimating.estimate([problem], **folders, isolated=True)[problem.name]


def test_a_good_estimate_counts(tmp_path, monkeypatch):
    assert estimated(tmp_path, monkeypatch, {"outcomes": {"scaled_h4": {"works": {"1": GOOD}}}}) == {"1": GOOD}


def test_a_problem_that_ends_the_worker_is_refused(tmp_path, monkeypatch):
    failure = Missing(code=Code.CRASH, message="killed\x1b[2J")
    assert "killed\\x1b" in estimated(tmp_path, monkeypatch, {"in_flight": "scaled_h4", "failure": failure})


@pytest.mark.parametrize(
    "change",
    [
        {"flops": "1"}, {"flops": float("inf")}, {"flops": -1.0}, {"bytes": None}, {"outputs": []}, {"outputs": {"y": 1}},
        {"outputs": {"y": [[-3], "float32"]}}, {"outputs": {"y); import os": [[3], "float32"]}}, {"outputs": {"y": [[3], "x y"]}},
        {"random": 1}, {"init": "__import__('os').system('x')"},
    ],
)  # fmt: skip
def test_what_foreign_code_could_have_written_is_not_believed(tmp_path, monkeypatch, change):
    answer = {"outcomes": {"scaled_h4": {"works": {"1": {**GOOD, **change}}}}}
    assert estimated(tmp_path, monkeypatch, answer) == "its estimate is invalid. Name each output like a variable"


def test_a_random_reference_is_refused(tmp_path, monkeypatch):
    answer = {"outcomes": {"scaled_h4": {"works": {"1": {**GOOD, "random": "aten.bernoulli"}}}}}
    assert "draws random numbers (aten.bernoulli)" in estimated(tmp_path, monkeypatch, answer)


def test_without_torch_there_is_a_fix(tmp_path, monkeypatch):
    failure = Missing(code=Code.TOOL_FAILED, message="the worker did not start: No module named 'torch'")
    with pytest.raises(CannotCollectError) as error:
        estimated(tmp_path, monkeypatch, {"failure": failure})
    assert "pip install torch" in error.value.fix
