"""Small stand-ins for problems of other projects, in our own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flashcore_ci.scaffold import definitions
from flashcore_ci.scaffold.foreign import Problem

REFERENCE = "import torch\n\n\ndef run(x, w, eps):\n    return (x * w + eps,)\n"
KERNEL = "def scaled(a, b, c):\n    return b * a + c\n"
MODEL = """import torch

N = 8


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.rand(N, N)]


def get_init_inputs():
    return [N]
"""
MODEL_NEW = (
    "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.mul(x, self.weight)\n"
)


def definition(**changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": "scaled_h4",
        "axes": {
            "rows": {"type": "var"},
            "h": {"type": "const", "value": 4},
            "twice": {"type": "expr", "expression": "rows * 2"},
        },
        "inputs": {
            "x": {"shape": ["rows", "h"], "dtype": "float16"},
            "w": {"shape": ["h"], "dtype": "float16"},
            "eps": {"shape": None, "dtype": "float32"},
        },
        "outputs": {"y": {"shape": ["rows", "h"], "dtype": "float16"}},
        "reference": REFERENCE,
    }
    return {**record, **changes}


def workload(rows: int = 3, **changes: Any) -> dict[str, Any]:
    inputs = {"x": {"type": "random"}, "w": {"type": "random"}, "eps": {"type": "scalar", "value": 0.5}}
    return {"uuid": "1", "axes": {"rows": rows}, "inputs": inputs, **changes}


def solution(text: str = KERNEL, path: str = "kernel.py", **spec: Any) -> dict[str, Any]:
    how = {"languages": ["triton"], "entry_point": "kernel.py::scaled", "destination_passing_style": False, **spec}
    return {"name": "s", "definition": "scaled_h4", "spec": how, "sources": [{"path": path, "content": text}]}


def written(folder: Path, *, made: Any = None, works: Any = None, solved: Any = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "definition.json").write_text(json.dumps(made or definition()))
    lines = [json.dumps(work) for work in works or (workload(), workload(5))]
    (folder / "workload.jsonl").write_text("\n".join(lines) + "\n")
    if solved:
        (folder / "solution.json").write_text(json.dumps(solved))
    return folder / "definition.json"


def problems(folder: Path, **parts: Any) -> list[Problem]:
    return list(definitions.read(written(folder, **parts), origin="x", most=20))


def works_of(problem: Problem) -> dict[str, Any]:
    """What an estimate says of every case."""
    work = {"flops": 12.0, "bytes": 34.0, "outputs": {"y": [[3, 4], "float16"]}, "random": "", "init": "[8]"}
    return {case.id: work for case in problem.cases}
