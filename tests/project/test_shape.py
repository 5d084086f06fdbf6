"""The shape of the code: short files, short functions, and one place per import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = sorted((ROOT / "flashcore_ci").rglob("*.py"))
CODE = [*PACKAGE, *(path for folder in ("kernel", "tools", ".github") for path in sorted((ROOT / folder).rglob("*.py")))]
REFERENCES = (ROOT / "tests/golden", ROOT / "tests/recordings")  # expected output
TESTS = [path for path in sorted((ROOT / "tests").rglob("*.py")) if not any(path.is_relative_to(folder) for folder in REFERENCES)]

MAX_LINES = 300
MAX_FUNCTION_LINES = 50
MAX_KERNEL_FUNCTION_LINES = 80  # one C structure is filled in one place
ALLOWED_IN = {"subprocess": ("flashcore_ci/adapters/supervised.py",), "torch": ("flashcore_ci/worker/", "kernel/", "tools/")}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from ``def`` to the end; a docstring explains and does not count."""
    first = node.body[0]
    documented = ast.get_docstring(node, clean=False) is not None
    return node.end_lineno - node.lineno + 1 - (first.end_lineno - first.lineno + 1 if documented else 0)


def too_long(text: str, limit: int = MAX_FUNCTION_LINES) -> list[str]:
    return [node.name for node in functions(ast.parse(text)) if length(node) > limit]


def misplaced_imports(name: str, text: str) -> list[str]:
    return [
        module
        for module in imported(ast.parse(text)) & set(ALLOWED_IN)
        if not any(name == place or (place.endswith("/") and name.startswith(place)) for place in ALLOWED_IN[module])
    ]


@pytest.mark.parametrize("path", [*CODE, *TESTS], ids=relative)
def test_files_stay_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", CODE, ids=relative)
def test_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert too_long(text, MAX_FUNCTION_LINES if path in PACKAGE else MAX_KERNEL_FUNCTION_LINES) == []


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_processes_and_torch_have_one_place(path: Path) -> None:
    assert misplaced_imports(relative(path), path.read_text(encoding="utf-8")) == []


def test_the_rules_can_fail() -> None:
    assert too_long("def f():\n" + "    pass\n" * 60) == ["f"]
    assert misplaced_imports("flashcore_ci/judge/judge.py", "def f():\n    import torch.nn\n") == ["torch"]
    assert misplaced_imports("flashcore_ci/adapters/nvcc.py", "from subprocess import run") == ["subprocess"]
    assert misplaced_imports("flashcore_ci/worker/timing.py", "import torch") == []
