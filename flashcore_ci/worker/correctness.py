"""Job ``correctness``: each workload against PyTorch in its own precision, against float64, and against itself.

It runs on a stream that is not the default one, and two of its launches come while that stream is still held up: work that a
subject submits elsewhere is done before the outputs are poisoned, and so is seen as never written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import guard, tensors
from flashcore_ci.worker.job import Job, Result, Work, missing, number
from flashcore_ci.worker.subject_file import Subjects

ALLOWED_TIMES = 2.0
LATE_LAUNCHES = 2
MOST_HISTOGRAMS = 4  # outputs
HELD_UP_CYCLES = 20_000_000  # about 10 ms: longer than it takes to submit a launch


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
        if math.isinf(allowed):  # PyTorch overflowed: that allows nothing
            return math.nan
        if allowed == 0:
            return 0.0 if self.ours.value == 0 else float("inf") * self.ours.value
        return self.ours.value / allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """What the launches of one workload left: the first one's outputs, what nobody wrote in them, and how many others differed."""

    first: dict[str, Any]
    unwritten: dict[str, Any]
    differing: int


def run(job: Job, result: Result) -> bool:
    """One outcome a workload: readings and notes."""
    import torch

    guard.begin(job, result)
    subjects = Subjects(job)
    stream = torch.cuda.Stream()

    def measure(work: Work) -> dict[str, Any]:
        with torch.cuda.stream(stream):
            return _measure(subjects[work.subject], work, int(job.options["repeats"]), job.options["entries"][work.id])

    return guard.each(job, result, measure)


def _measure(subject: Any, work: Work, repeats: int, entries: Collection[str]) -> dict[str, Any]:
    inputs = subject.inputs(work.params, work.seed)
    launches = _launch(subject, inputs, repeats)
    absent = _unseen(subject, inputs, entries)
    if absent is not None:
        return absent
    used, inputs = inputs, subject.inputs(work.params, work.seed)
    tensors.refuse_changed(used, inputs)
    del used
    low = subject.reference(inputs)
    _agree(launches.first, low, "reference")
    bad = sum(tensors.bad_values(launches.first[name], low[name], mask) for name, mask in launches.unwritten.items())
    readings: dict[str, float] = {"finite/bad-values": bad, "repeat/differing-runs": launches.differing}
    exact = subject.reference(tensors.upcast(inputs))
    _agree(launches.first, exact, "float64 reference")
    del inputs
    return _compare(launches.first, low, exact, readings)


def _launch(subject: Any, inputs: Mapping[str, Any], repeats: int) -> Launches:
    """Launch once, then ``repeats`` times more; an element is written if it lost either poison."""
    outputs = subject.outputs(inputs)
    _run(subject, inputs, outputs, 0)
    first = {name: tensor.clone() for name, tensor in outputs.items()}
    kept = [{name: tensors.still_poisoned(tensor, 0) for name, tensor in first.items()}]
    differing = 0
    for repeat in range(max(LATE_LAUNCHES, repeats)):
        poison, late = (repeat + 1) % 2, repeat < LATE_LAUNCHES
        _run(subject, inputs, outputs, poison, late=late)
        differing += not tensors.same_bits(first, outputs)
        if late:
            kept.append({name: tensors.still_poisoned(tensor, poison) for name, tensor in outputs.items()})
    unwritten = {name: kept[1][name] & (kept[0][name] | kept[2][name]) for name in first}
    return Launches(first=first, unwritten=unwritten, differing=differing)


def _run(subject: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], poison: int, *, late: bool = False) -> None:
    """One launch into poisoned outputs. ``late``: the stream is held up meanwhile. The subject cannot exchange the tensors."""
    import torch

    if late:
        torch.cuda._sleep(HELD_UP_CYCLES)  # noqa: SLF001 - the one way to hold up a stream, used by PyTorch's own tests
    tensors.poison(outputs, poison)
    subject.run(MappingProxyType(inputs), MappingProxyType(outputs))
    torch.cuda.synchronize()


def _unseen(subject: Any, inputs: Mapping[str, Any], entries: Collection[str]) -> dict[str, Any] | None:
    """Why this is no measurement of the planned entry functions: one of them does not run. None when all do."""
    import torch

    if not entries:
        return None
    outputs = subject.outputs(inputs)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        _run(subject, inputs, outputs, 0)
    seen = {event.name for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA}
    if not seen:
        return missing(Code.TOOL_FAILED, "PyTorch's profiler saw no launch at all, not even of the poison")
    absent = sorted(set(entries) - seen)
    return missing(Code.KERNEL_NOT_SEEN, f"{absent[0]} never ran") if absent else None


def _compare(
    first: Mapping[str, Any], low: Mapping[str, Any], exact: Mapping[str, Any], readings: dict[str, float]
) -> dict[str, Any]:
    differences = {name: tensors.largest_difference(first[name], low[name]) for name in first}
    errors = [error_of(name, first[name], low[name], exact[name]) for name in first]
    name = max(differences, key=lambda name: _nan_first(differences[name].value))
    error = max(errors, key=lambda error: _nan_first(error.ratio))
    worst = differences[name]
    readings |= {"diff/max": worst.value, "error/ratio": error.ratio}
    return {
        "readings": {metric: number(value) for metric, value in readings.items()},
        "histograms": _histograms(first, low, exact),
        "notes": [
            f"largest difference in {name}{list(worst.index)}: {worst.first:.6g}, PyTorch {worst.second:.6g}",
            f"largest error against float64 in {error.name}{list(error.ours.index)}: {error.ours.value:.3g}",
            f"PyTorch's own largest error there: {error.theirs:.3g}; allowance {error.allowance:.3g}",
        ],
    }


def _histograms(first: Mapping[str, Any], low: Mapping[str, Any], exact: Mapping[str, Any]) -> dict[str, Any]:
    """Errors against float64, ours and PyTorch's own, of the first few outputs."""
    sides = {"ours": first, "pytorch": low}
    names = list(first)[:MOST_HISTOGRAMS]
    return {f"error/{side}/{name}": tensors.powers(given[name], exact[name]) for name in names for side, given in sides.items()}


def error_of(name: str, ours: Any, low: Any, exact: Any) -> Error:
    """How far an output is from ``exact`` (float64), beside PyTorch's ``low`` at the same precision. Any shape, all three the same."""
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
    if not any(bool(tensor.isfinite().any()) for tensor in reference.values()):
        raise ValueError(f"the {what} holds no finite number: there is nothing to compare with")
    for name, tensor in outputs.items():
        if tensor.is_complex():
            raise ValueError(f"{name} is complex: give its real and imaginary parts")
        if tensor.shape != reference[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the {what} {tuple(reference[name].shape)}")
