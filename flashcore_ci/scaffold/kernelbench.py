"""Read KernelBench problems: ``Model``, ``get_inputs()``, ``get_init_inputs()``, and a candidate's ``ModelNew``."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from flashcore_ci.scaffold import foreign
from flashcore_ci.scaffold.foreign import Candidate, Case, ForeignError, Problem


def is_problem(text: str) -> bool:
    """Tell whether this Python file looks like a problem."""
    return "get_inputs" in text and re.search(r"^class Model\b", text, re.MULTILINE) is not None


def read(file: Path, *, origin: str, candidate: tuple[str, str] | None) -> Problem:
    """Read a problem. ``candidate``: path in the checkout and text of the file with ModelNew (None: torch.compile)."""
    text = foreign.read_text(file, file.name)
    tree = foreign.parse(text, file.name)
    if not isinstance(foreign.definition_of(tree, "Model"), ast.ClassDef):
        raise ForeignError("it has no class Model")
    foreign.parameters(tree, "get_inputs", file.name)
    chosen = Candidate(kind="compiled")
    if candidate is not None:
        path, code = candidate
        if not isinstance(foreign.definition_of(foreign.parse(code, path), "ModelNew"), ast.ClassDef):
            raise ForeignError(f"{path} has no class ModelNew")
        foreign.refuse_same(text, "Model", code, "ModelNew")
        chosen = Candidate(kind="model", file=path)
    return Problem(
        name=foreign.named(re.sub(r"[^A-Za-z0-9.-]+", "_", file.stem).strip("_."), "the file"),
        origin=origin,
        command="import",
        cases=(Case(id="1", params={}),),
        candidate=chosen,
        source=text,
    )
