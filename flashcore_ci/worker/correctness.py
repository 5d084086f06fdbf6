"""Job ``correctness``: each workload against PyTorch in its own precision, against float64, and against itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashcore_ci.worker import guard, tensors
from flashcore_ci.worker.job import Job, Result, Work, number
from flashcore_ci.worker.subject_file import Subjects

ALLOWED_TIMES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """How wrong one output is: its worst error, PyTorch's own, what rounding allows, and their ratio."""

    name: str
    ours: tensors.Difference
    theirs: float
    allowance: float

    @property
    def ratio(self) -> float:
        """Our error by 2 x theirs + allowance: at most 1 is as good as PyTorch; where none is allowed, any error is infinite."""
        allowed = ALLOWED_TIMES * self.theirs + self.allowance
        if allowed == 0:
            return 0.0 if self.ours.value == 0 else float("inf") * self.ours.value
        return self.ours.value / allowed


def run(job: Job, result: Result) -> bool:
    """One outcome a workload: readings and notes."""
    guard.begin(job, result)
    subjects = Subjects(job)
    repeats = int(job.options["repeats"])

    def measure(work: Work) -> dict[str, Any]:
        return _measure(subjects[work.subject], work, repeats)

    return guard.each(job, result, measure)


def _measure(subject: Any, work: Work, repeats: int) -> dict[str, Any]:
    inputs = subject.inputs(work.params, work.seed)
    outputs = subject.outputs(inputs)
    _run(subject, inputs, outputs, 0)
    first = {name: tensor.clone() for name, tensor in outputs.items()}
    unwritten = {name: tensors.still_poisoned(tensor, 0) for name, tensor in first.items()}
    differing = 0
    for repeat in range(max(1, repeats)):
        _run(subject, inputs, outputs, (repeat + 1) % 2)
        differing += not tensors.same_bits(first, outputs)
        if repeat == 0:
            unwritten = {name: mask & tensors.still_poisoned(outputs[name], 1) for name, mask in unwritten.items()}
    low = subject.reference(inputs)
    _agree(first, low, "reference")
    readings: dict[str, float] = {
        "finite/bad-values": sum(tensors.bad_values(first[name], low[name], unwritten[name]) for name in first),
        "repeat/differing-runs": differing,
    }
    del outputs, unwritten
    exact = subject.reference(tensors.upcast(inputs))
    _agree(first, exact, "float64 reference")
    del inputs
    return _compare(first, low, exact, readings)


def _run(subject: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], poison: int) -> None:
    import torch

    tensors.poison(outputs, poison)
    subject.run(inputs, outputs)
    torch.cuda.synchronize()


def _compare(
    first: Mapping[str, Any], low: Mapping[str, Any], exact: Mapping[str, Any], readings: dict[str, float]
) -> dict[str, Any]:
    differences = {name: tensors.largest_difference(first[name], low[name]) for name in first}
    errors = [_error(name, first[name], low[name], exact[name]) for name in first]
    name = max(differences, key=lambda name: _nan_first(differences[name].value))
    error = max(errors, key=lambda error: _nan_first(error.ratio))
    worst = differences[name]
    readings |= {"diff/max": worst.value, "error/ratio": error.ratio}
    return {
        "readings": {metric: number(value) for metric, value in readings.items()},
        "notes": [
            f"largest difference in {name}{list(worst.index)}: {worst.first:.6g}, PyTorch {worst.second:.6g}",
            f"largest error against float64 in {error.name}{list(error.ours.index)}: {error.ours.value:.3g}",
            f"PyTorch's own largest error there: {error.theirs:.3g}; allowance {error.allowance:.3g}",
        ],
    }


def _error(name: str, ours: Any, low: Any, exact: Any) -> Error:
    return Error(
        name=name,
        ours=tensors.largest_difference(ours, exact),
        theirs=tensors.largest_difference(low, exact).value,
        allowance=2.0 * tensors.rounding(low.to(ours.dtype)),
    )


def _nan_first(value: float) -> float:
    return float("inf") if value != value else value  # noqa: PLR0124 - only NaN differs from itself


def _agree(outputs: Mapping[str, Any], reference: Mapping[str, Any], what: str) -> None:
    """Refuse a reference of other outputs or shapes: a comparison by broadcasting or by common names would hide it."""
    if set(outputs) != set(reference):
        raise ValueError(f"outputs are {sorted(outputs)}, the {what} gives {sorted(reference)}")
    for name, tensor in outputs.items():
        if tensor.shape != reference[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the {what} {tuple(reference[name].shape)}")
