"""Mistakes of subjects are found in their text, and sound subjects have none."""

from pathlib import Path

import pytest

from flashcore_ci.suite.subject_text import MEASURED, Part, mistakes

ROOT = Path(__file__).parents[3]
GOOD = """
def build(root):
    entry = {"symbol": "scale", "source": "scale.cu", "max_registers": 64, "dynamic_shared_bytes": 0}
    return {"library": "x.so", "launchers": [], "includes": [], "binding": [], "entries": [entry]}


def problem(params):
    return {"flops": params["n"], "bytes": 8, "entries": ["scale"]}


def load(library):
    pass


def inputs(params, seed):
    return {"x": draw(params["n"], seed)}


def outputs(inputs):
    return {"out": empty(inputs["x"])}


def run(inputs, outputs):
    launch(inputs["x"], outputs["out"])


def reference(inputs):
    return {"out": inputs["x"] * 2}
"""
PART = Part(needed=("build", "problem", *MEASURED), workloads={"big": {"n": 1}})


def found(text: str) -> list[str]:
    return [message for _, message in mistakes(text, PART)]


def test_a_sound_subject_has_none() -> None:
    assert found(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def build(root)", "def build()", "build() takes 0 arguments, and gets 1: write def build(root)"),
        ("def inputs(params, seed)", "def inputs(params)", "inputs() takes 1 arguments, and gets 2"),
        ("def run(inputs, outputs)", "def run(inputs, outputs, stream)", "run() takes 3 arguments, and gets 2"),
        ("def run(inputs, outputs)", "def run(outputs, inputs)", "run() has its arguments in another order"),
        ("def run(inputs, outputs)", "def run(inputs, outputs, *, stream)", "run() needs the keyword stream"),
        ("def run(", "async def run(", "run() is async"),
        ("def reference(", "def refernce(", "the function reference(inputs) is missing, did you mean refernce?"),
        ("def problem(", "def problems(", "the function problem(params) is missing, did you mean problems?"),
        ('"library"', '"librray"', 'build(): unknown key "librray" (did you mean "library"?)'),
        ('"library": "x.so", ', "", 'build(): the key "library" is missing'),
        ('"flops"', '"flop"', 'problem(): unknown key "flop" (did you mean "flops"?)'),
        ('params["n"], "bytes"', 'params["m"], "bytes"', 'problem() reads params["m"], which workload big does not have'),
        (
            'draw(params["n"]',
            'draw(params["nn"]',
            'inputs() reads params["nn"], which workload big does not have (did you mean "n"?)',
        ),
        ('{"out": inputs["x"] * 2}', '{"output": inputs["x"] * 2}', "reference() returns output, and outputs() out"),
        ('empty(inputs["x"])', 'empty(inputs["y"])', 'outputs() reads inputs["y"], which inputs() does not return'),
        ('outputs["out"]', 'outputs["o"]', 'run() reads outputs["o"], which outputs() does not return'),
        ('return {"x": draw(params["n"], seed)}', 'draw(params["n"], seed)', "inputs() returns nothing: return a dict"),
    ],
)
def test_each_mistake_is_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    assert any(message in line for line in found(GOOD.replace(old, new, 1))), found(GOOD.replace(old, new, 1))


def test_all_at_once_with_their_lines() -> None:
    text = GOOD.replace("def build(root)", "def build()").replace("def reference(", "def refernce(")
    lines = text.split("\n")
    for line, message in mistakes(text, PART):
        assert ("build" if "build" in message else "refernce") in lines[line - 1]


@pytest.mark.parametrize(
    "text",
    [
        "from elsewhere import *",
        "import other\nfor name in dir(other):\n    globals()[name] = getattr(other, name)",
        GOOD.replace("def run(inputs, outputs)", "def run(inputs, outputs, stream=None)"),
        GOOD.replace("def run(inputs, outputs)", "def run(*tensors)").replace(
            'launch(inputs["x"], outputs["out"])', "launch(*tensors)"
        ),
        GOOD.replace("def run(", "@wrapped\ndef run(").replace("def run(inputs, outputs)", "def run(a, b, c)"),
        GOOD.replace('flops": params["n"]', 'flops": params["m"] if "m" in params else 1'),
        GOOD.replace(
            '    return {"flops"', '    if "m" not in params:\n        return known()\n    n = params["m"]\n    return {"flops"'
        ),
        GOOD.replace('    return {"flops"', '    params = complete(params)\n    m = params["m"]\n    return {"flops"'),
        GOOD.replace('return {"x":', 'return {**more, "x":').replace('empty(inputs["x"])', 'empty(inputs["y"])'),
        GOOD.replace('    return {"x": draw(params["n"], seed)}', "    raise NotImplementedError"),
        GOOD[: GOOD.index("def inputs")],
        "def build(:",
        "\0",
        "(" * 5000,
    ],
)
def test_what_may_be_right_is_left_to_the_worker(text: str) -> None:
    assert found(text) == []


SHIPPED = [*ROOT.glob("kernel/*/subject*.py"), *ROOT.glob("kernel/subjects/*.py"), *ROOT.glob("kernel/defects/*.py")]


@pytest.mark.parametrize("file", sorted({*SHIPPED}), ids=lambda file: file.name)
def test_shipped_subjects_have_none(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    if "def build(" in text:
        part = Part(needed=PART.needed, workloads={})
        assert [message for _, message in mistakes(text, part) if "missing" not in message] == []
