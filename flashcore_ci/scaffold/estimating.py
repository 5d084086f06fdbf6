"""Ask a worker for FLOP, bytes and outputs of problems, and make their files."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashcore_ci.bounded.values import shorten
from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.suite import Roof, Workload
from flashcore_ci.model.text import visible
from flashcore_ci.scaffold import texts
from flashcore_ci.scaffold.foreign import Problem

SECONDS = 600.0
NO_TORCH = "No module named 'torch'"


def estimate(
    problems: Sequence[Problem], *, python: Path, scratch: Path, root: Path, isolated: bool
) -> dict[str, dict[str, Any] | str]:
    """Return what each problem's cases are, or why there is no estimate."""
    found: dict[str, dict[str, Any] | str] = {}
    while left := [problem for problem in problems if problem.name not in found]:
        result = child.run(_job(left, python=python, scratch=scratch, root=root, isolated=isolated))
        found |= {name: _checked(outcome) for name, outcome in result.outcomes.items()}
        if result.failure is not None and NO_TORCH in result.failure.message:
            raise CannotCollectError(
                f"{python} has no torch, which this command needs for one call without a GPU",
                fix="pip install torch, or name an interpreter that has it in FLASHCORE_CI_PYTHON",
            )
        failure = result.failure.message if result.failure else "it gave no answer"
        if result.in_flight is not None:
            found[result.in_flight] = visible(f"its code ended the process: {failure}")
        elif any(problem.name not in found for problem in left):
            raise CannotCollectError(f"the worker cannot estimate: {visible(failure)}", fix="flashcore-ci doctor")
    return found


def _job(problems: Sequence[Problem], *, python: Path, scratch: Path, root: Path, isolated: bool) -> JobSpec:
    subjects, workloads = [], []
    for problem in problems:
        file = scratch / problem.name / "definition.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(texts.definition(problem, {}, folder="gates"), encoding="utf-8")
        subjects.append({"name": problem.name, "file": str(file), "library": None, "candidate": ()})
        for case in problem.cases:
            params = tuple(sorted(case.params.items()))
            empty: Any = {"roof": Roof.BALANCED, "seed": 0, "collect": ()}
            workloads.append(Workload(id=case.id, subject=problem.name, params=params, **empty))
    return JobSpec(
        kind="estimate",
        name="estimate",
        python=python,
        root=scratch if isolated else root,
        scratch=scratch,
        seconds=SECONDS,
        subjects=tuple(subjects),
        workloads=tuple(workloads),
        options={"isolated": isolated},
    )


def _checked(outcome: Mapping[str, Any]) -> dict[str, Any] | str:
    """Believe nothing that foreign code could have written: only numbers, shapes and names of types count."""
    named = outcome.get("problems")
    if isinstance(named, list) and named:
        return visible(shorten(str(named[0]), 300))
    works = outcome.get("works")
    if not isinstance(works, dict) or not works or not all(_is_work(work) for work in works.values()):
        return "its estimate is invalid. Name each output like a variable"
    drawn = next((work["random"] for work in works.values() if work["random"]), "")
    return visible(f"its reference draws random numbers ({drawn[:80]}), so no result is right") if drawn else works


def _is_work(work: Any) -> bool:
    if not isinstance(work, dict) or not isinstance(work.get("outputs"), dict) or not isinstance(work.get("random"), str):
        return False
    numbers = all(isinstance(work.get(key), int | float) and 0 <= work[key] < float("inf") for key in ("flops", "bytes"))
    init = work.get("init", "[]")
    return numbers and all(map(_is_output, work["outputs"].items())) and _is_literal(init)


def _is_output(item: tuple[str, Any]) -> bool:
    name, value = item
    if not (isinstance(value, list) and len(value) == 2):  # noqa: PLR2004 - a shape and a dtype
        return False
    shape, dtype = value
    sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    return sizes and name.isidentifier() and isinstance(dtype, str) and dtype.isidentifier()


def _is_literal(text: object) -> bool:
    try:
        ast.literal_eval(str(text))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return True
