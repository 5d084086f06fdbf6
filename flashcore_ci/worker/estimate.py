"""Estimate the work of a foreign problem from one call on fake tensors, without a GPU.

The code is of strangers, so this process first gives up network and files.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flashcore_ci.worker import sandbox
from flashcore_ci.worker.job import Job, Result, Subject, Work
from flashcore_ci.worker.subject_file import last_line, load

MAX_REAL_BYTES = 64 << 20
"""Inputs up to this size are also computed, if the outputs depend on values."""


def run(job: Job, result: Result) -> bool:
    """Write one outcome per subject: FLOP, bytes and outputs of each workload, or what is wrong."""
    tempfile.tempdir = os.environ["TMPDIR"] = str(job.folder)
    if job.options["isolated"]:
        package = Path(__file__).parents[2]
        readable = [package, job.root, *(Path(folder) for folder in sys.path if folder), job.folder]
        os.chdir(job.folder)
        sandbox.enter(readable, job.folder, user=0)
    import torch  # noqa: F401 - without it every problem has the same reason

    for subject in job.subjects:
        result.start(subject.name)
        result.finish(subject.name, _estimate(job, subject))
    return True


def _estimate(job: Job, subject: Subject) -> dict[str, Any]:
    works: dict[str, Any] = {}
    try:
        module: Any = load(subject)
        module.DEVICE, module.ROOT = "cpu", job.root
        for work in job.workloads:
            if work.subject == subject.name:
                works[work.id] = _work(module, work)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return {"problems": [last_line(error)]}
    return {"works": works}


def _work(module: Any, work: Work) -> dict[str, Any]:
    """Count on fake tensors. Where outputs depend on values, count on real ones that are small."""
    import torch
    from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

    dependent = (DynamicOutputShapeException, torch._subclasses.fake_tensor.DataDependentOutputException)  # noqa: SLF001
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            inputs = module.inputs(work.params, work.seed)
            return _count(module, inputs)
    except Exception as error:
        if not isinstance(error, dependent) and not isinstance(error.__cause__, dependent):
            raise
        with mode:
            size = _bytes_of(module.inputs(work.params, work.seed))
        if size > MAX_REAL_BYTES:
            raise ValueError("its outputs depend on values, and its inputs are too large to compute them here") from None
    module.forget()
    return _count(module, module.inputs(work.params, work.seed))


def _count(module: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    if hasattr(module, "skeleton"):
        module.skeleton(inputs)  # its first weights are random, and not a part of the call
    with _counting() as counted:
        outputs = module.reference(inputs)
    if not outputs:
        raise ValueError("it returns no tensor")
    shapes = {name: [list(value.shape), str(value.dtype).removeprefix("torch.")] for name, value in outputs.items()}
    return {
        "flops": float(counted["flops"]),
        "bytes": float(_bytes_of(inputs) + _bytes_of(outputs)),
        "outputs": shapes,
        "random": counted["random"],
        "init": repr(module.init()) if hasattr(module, "init") else "[]",
    }


def _bytes_of(values: Mapping[str, Any]) -> int:
    return sum(value.numel() * value.element_size() for value in values.values() if hasattr(value, "element_size"))


@contextmanager
def _counting() -> Iterator[dict[str, Any]]:
    """Count matrix products as PyTorch does, and one FLOP per element of every other floating result."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    counted: dict[str, Any] = {"flops": 0, "random": ""}

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs or {}):
                counted["random"] = str(func.overloadpacket)
            if func.overloadpacket in flop_registry:
                counted["flops"] += flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=result)
            elif not func.is_view and isinstance(result, torch.Tensor) and result.is_floating_point():
                counted["flops"] += math.prod(result.shape)
            return result

    with Counter():
        yield counted


def _draws(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Tell whether this call really draws numbers. Attention does so only with dropout."""
    arguments = func._schema.arguments  # noqa: SLF001 - PyTorch has no public schema
    values = {each.name: each.default_value for each in arguments}
    values |= {**dict(zip(values, args, strict=False)), **kwargs}
    return all(values[name] != 0.0 for name in ("dropout_p", "p") if name in values) and values.get("train") is not False
