"""A candidate that is its own reference: every check passes, and says nothing."""

from __future__ import annotations

import random
from pathlib import Path

import foreign_files
import pytest
from attacking import Attack, AttackClass

from flashcore_ci.scaffold import foreign, kernelbench, local_imports, pairs
from flashcore_ci.scaffold.foreign import ForeignError

RUN = "def run(x, w, eps):\n    y = x * w\n    return (y + eps,)\n"
OTHER = "def k(x):\n    return x + x\n"
MODEL = foreign_files.MODEL.replace("Model", "ModelNew")
SAME = {
    "the same text": RUN,
    "another name": RUN.replace("run", "scaled"),
    "other variables": RUN.replace("x", "a").replace("y", "b").replace("eps", "c"),
    "a docstring": RUN.replace("    y =", '    """Be fast."""\n    y ='),
    "comments and blanks": RUN.replace("    y =", "    # fast\n\n    y  =  "),
    "annotations": RUN.replace("(x, w, eps)", "(x: int, w: 'T', eps: float) -> tuple"),
    "a decorator": f"def fast(f):\n    return f\n\n\n@fast\n{RUN}",
    "a later definition": f"def run(x, w, eps):\n    return custom(x)\n\n\n{RUN}",
    "parentheses": RUN.replace("x * w", "(x * w)"),
}


def _solution(name: str, text: str) -> Attack:
    def attempt(folder: Path) -> bool:
        entry = "scaled" if "def scaled" in text else "run"
        solved = foreign_files.solution(text, entry_point=f"kernel.py::{entry}")
        try:
            foreign_files.problems(folder, made=foreign_files.definition(reference=RUN), solved=solved)
        except ForeignError:
            return False
        return True

    return Attack(name=f"solution with {name}", attempt=attempt)


def _model(name: str, text: str) -> Attack:
    def attempt(folder: Path) -> bool:
        (folder / "m.py").write_text(foreign_files.MODEL)
        try:
            kernelbench.read(folder / "m.py", origin="x", candidate=("new.py", text))
        except ForeignError:
            return False
        return True

    return Attack(name=f"model with {name}", attempt=attempt)


def _pair(name: str, files: dict[str, str], kernel: str = "k.py", reference: str = "r.py") -> Attack:
    def attempt(folder: Path) -> bool:
        for file, text in files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text)
        given = {"x": ((4,), "float32")}
        pair = pairs.Pair(name="k", origin="k", command="init", kernel=(kernel, "k"), reference=(reference, "r"), given=given)
        try:
            pairs.make(pair, folder)
        except ForeignError:
            return False
        return True

    return Attack(name=name, attempt=attempt)


ATTACKS = (
    *(_solution(name, text) for name, text in SAME.items()),
    _model("the same text", MODEL),
    _model("another parameter", MODEL.replace("size", "n")),
    _model("a docstring", MODEL.replace("    def __init__", '    """Fast."""\n\n    def __init__')),
    _pair("both in one file", {"k.py": OTHER + "def r(x):\n    return 2 * x\n"}, reference="k.py"),
    _pair("the reference imports the kernel", {"k.py": OTHER, "r.py": "import k\ndef r(x):\n    return k.k(x)\n"}),
    _pair("it imports it in the function", {"k.py": OTHER, "r.py": "def r(x):\n    from k import k\n    return k(x)\n"}),
    _pair("through another file", {"k.py": OTHER, "m.py": "import k\n", "r.py": "import m\ndef r(x):\n    return m.k.k(x)\n"}),
    _pair(
        "from its package",
        {"p/__init__.py": "", "p/k.py": OTHER, "p/r.py": "from . import k\ndef r(x):\n    return k.k(x)\n"},
        kernel="p/k.py",
        reference="p/r.py",
    ),
    _pair(
        "by the package's own file",
        {"p/__init__.py": "from .k import k\n", "p/k.py": OTHER, "r.py": "import p\ndef r(x):\n    return p.k(x)\n"},
        kernel="p/k.py",
    ),
    _pair("a copy with a docstring", {"k.py": OTHER, "r.py": OTHER.replace("k(x):", 'r(x):\n    """Be right."""')}),
)


def _member(numbers: random.Random) -> Attack:
    text = RUN
    for name in ("x", "w", "eps", "y"):
        text = text.replace(f"{name}", f"v{numbers.randrange(10**6)}{name}") if numbers.random() < 0.5 else text
    return _solution(f"variables {numbers.random()}", text if "def run" in text else RUN)


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "refuse_same", lambda *_: None)
    monkeypatch.setattr(local_imports, "closure", lambda *_: ())


CLASS = AttackClass(name="one side", attacks=ATTACKS, member=_member, mutant=_mutant)
