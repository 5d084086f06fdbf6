"""Launch a subject and check its outputs with the gate's limit.

The limit is the gate's error-ratio for every output. The largest error may be twice PyTorch's in the same precision, plus twice the
rounding of the result's dtype at its size. A looser limit once passed outputs that the gate failed.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import pathlib
from types import ModuleType
from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.correctness import error_of

KERNEL = pathlib.Path(__file__).resolve().parents[2] / "kernel"


def load(name: str) -> ModuleType:
    """Load the subject of this name."""
    spec = importlib.util.spec_from_file_location(f"subject_{name}", KERNEL / f"subjects/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(subject: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Launch once and return the outputs. Elements that are not written stay NaN."""
    import torch

    outputs = subject.outputs(inputs)
    for tensor in outputs.values():
        tensor.fill_(math.nan)
    subject.run(inputs, outputs)
    torch.cuda.synchronize()
    return dict(outputs)


def decode(subject: ModuleType, inputs: dict[str, Any], **changes: Any) -> tuple[Any, Any]:
    """Call ``flashcore.decode`` with these inputs, without the subject's own options."""
    import flashcore

    accepted = inspect.signature(flashcore.decode).parameters.keys() - set(subject.local.LIMITS)
    assert changes.keys() <= accepted
    arguments = {name: value for name, value in {**inputs, **changes}.items() if name in accepted}
    q, k, v = (arguments.pop(name) for name in "qkv")
    result: tuple[Any, Any] = flashcore.decode(q, k, v, return_lse=True, **arguments)
    return result


def assert_correct(subject: ModuleType, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """AssertionError names the output and its error."""
    exact, low = subject.reference(tensors.upcast(inputs)), subject.reference(inputs)
    for name, result in outputs.items():
        error = error_of(name, result, low[name], exact[name]).result()
        assert error.ratio <= 1, f"{error}"
