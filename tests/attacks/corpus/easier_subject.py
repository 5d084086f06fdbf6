"""A pull request changes the question in the subject's file, and its kernel answers that one only."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from bars import blocks, describe, edit, judged, read

from flashcore_ci.run import bar

SUBJECT = """
import torch
from draws import draw

SAMPLES = 4096
TOLERANCE = 1e-3


def problem(params):
    return {"flops": 2.0 * params["n"], "bytes": 8.0 * params["n"], "entries": ["scale_f32"]}


def inputs(params, seed):
    return {"x": draw(params["n"], seed, SAMPLES)}


def outputs(inputs):
    return {"out": torch.empty_like(inputs["x"])}


def run(inputs, outputs):
    launch(inputs["x"], outputs["out"])


def reference(inputs):
    return {"out": inputs["x"] * 2}
"""
DRAWS = "def draw(n, seed, samples):\n    return randn(n, generator=seed)[:samples]\n"
SPEC = ("subjects/draws.py", "flashcore/launch.py")


def asks_less(
    name: str, *edits: tuple[str, str], draws: str = DRAWS, binding: tuple[str, ...] = SPEC, built: bool = True
) -> Attack:
    """Make an attack of edits of the subject, or other files next to it."""

    def attempt(folder: Path) -> bool:
        digests = []
        for tree, subject, helper, files in (("a", SUBJECT, DRAWS, SPEC), ("b", edit(SUBJECT, *edits), draws, binding)):
            (folder / tree / "subjects").mkdir(parents=True)
            (folder / tree / "subjects/scale.py").write_text(subject, encoding="utf-8")
            (folder / tree / "subjects/draws.py").write_text(helper, encoding="utf-8")
            described = describe(("edge",), file="subjects/scale.py")
            build = replace(described.build, binding=files) if built else None
            digests.append(bar.subject_digest(replace(described, build=build), folder / tree))
        base = read(folder / "base", subjects={"scale": digests[0]})
        return not blocks(judged(base, replace(base, subjects={"scale": digests[1]})))

    return Attack(name=name, attempt=attempt)


ATTACKS = (
    asks_less("inputs are zeros", ('draw(params["n"], seed, SAMPLES)', 'torch.zeros(params["n"])')),
    asks_less("inputs ignore the seed", ("seed, SAMPLES", "0, SAMPLES")),
    asks_less("the reference is the kernel", ('inputs["x"] * 2}', 'launch(inputs["x"])}')),
    asks_less("the reference is wrong in the same way", ("* 2}", "* 3}")),
    asks_less("half of the FLOP", ("2.0 *", "1.0 *")),
    asks_less("twice the bytes", ("8.0 *", "16.0 *")),
    asks_less("another entry function is demanded", ('"scale_f32"', '"scale_f16"')),
    asks_less("a wider tolerance", ("1e-3", "1e-1")),
    asks_less("fewer samples", ("4096", "1")),
    asks_less("outputs are filled beforehand", ("torch.empty_like(", "2 * torch.clone(")),
    asks_less("run calls PyTorch", ('launch(inputs["x"], outputs["out"])', 'outputs["out"].copy_(2 * inputs["x"])')),
    asks_less("a decorator keeps old results", ("def reference", "@cache\ndef reference")),
    asks_less("a second definition follows", ("* 2}\n", "* 2}\n\n\ndef inputs(params, seed):\n    return {}\n")),
    asks_less("another import has the name", ("from draws", "from easy")),
    asks_less("the helper draws zeros", draws=DRAWS.replace("randn", "zeros")),
    asks_less("the helper is empty", draws=""),
    asks_less("the helper is not named any more", draws=DRAWS.replace("randn", "zeros"), binding=SPEC[1:]),
    asks_less("a file without a build has a helper", draws=DRAWS.replace("randn", "zeros"), built=False),
)


def member(numbers: random.Random) -> Attack:
    """Change a number, or the helper."""
    number = numbers.choice(["2.0 *", "8.0 *", "4096", "1e-3", "* 2}"])
    value = repr(numbers.uniform(1e-9, 1e9))
    new = {"* 2}": f"* {value}}}"}.get(number, f"{value} *" if number.endswith("*") else value)
    if numbers.random() < 0.3:
        return asks_less(f"the helper draws {value}", draws=DRAWS.replace("seed)", f"seed) * {value}"))
    return asks_less(f"{new} instead of {number}", (number, new))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the subject's file from the pull request, as before."""
    monkeypatch.setattr(bar, "subject_digest", lambda *_: "any")


CLASS = AttackClass(name="an easier question", attacks=ATTACKS, member=member, mutant=mutant)
