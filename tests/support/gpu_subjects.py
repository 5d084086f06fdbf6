"""A subject's launches judged as the gate judges them.

The bound is the gate's own (error-ratio), for every output: the largest error may be twice that of PyTorch in the same precision, plus
twice what the result's type rounds away at its size. A looser one of ours once let pass what the gate refused.
"""

from __future__ import annotations

import importlib.util
import math
import pathlib
from types import ModuleType
from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.correctness import error_of

KERNEL = pathlib.Path(__file__).resolve().parents[2] / "kernel"


def load(name: str) -> ModuleType:
    """The subject of this name."""
    spec = importlib.util.spec_from_file_location(f"subject_{name}", KERNEL / f"subjects/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(subject: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of one launch; what it leaves unwritten is NaN."""
    import torch

    outputs = subject.outputs(inputs)
    for tensor in outputs.values():
        tensor.fill_(math.nan)
    subject.run(inputs, outputs)
    torch.cuda.synchronize()
    return dict(outputs)


def assert_right(subject: ModuleType, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """AssertionError that says which output is how far off."""
    exact, low = subject.reference(tensors.upcast(inputs)), subject.reference(inputs)
    for name, result in outputs.items():
        error = error_of(name, result, low[name], exact[name])
        assert error.ratio <= 1, f"{error}"
