"""Compare each workload with PyTorch, with float64, and with itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import cases, guard, kernels_seen, tensors, together
from flashcore_ci.worker.candidate import HOLD_CYCLES, PROFILER
from flashcore_ci.worker.driver import start_beside
from flashcore_ci.worker.group import RankSubject
from flashcore_ci.worker.isolated_subject import IsolatedSubject
from flashcore_ci.worker.job import Job, Result, Work, json_number, missing
from flashcore_ci.worker.subject_file import Subjects

WAIT_EVERY = 10  # launches: a kernel that hangs or faults is seen soon
LATE_LAUNCHES = 2  # on a held stream, so that work on another stream comes too early and counts as never written
MAX_HISTOGRAMS = 4  # outputs
CORES_PER_IMPORT = 4
KEPT_BYTES = 2 << 30
"""GPU memory that a process keeps between workloads. To give it back and take it again waits for the driver, as other processes do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAccuracy:
    """One output's worst error against float64, PyTorch's, and the rounding allowance."""

    name: str
    worst: tensors.Difference
    pytorch: float
    allowance: float

    @property
    def ratio(self) -> float:
        """The error over 2 x PyTorch's error + allowance: at most 1 passes."""
        allowed = tensors.ALLOWED_TIMES * self.pytorch + self.allowance
        if math.isinf(allowed):  # PyTorch overflowed, which must not allow any error
            return math.nan
        return tensors.divide(self.worst.value, allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResults:
    """First outputs, unwritten elements, and the count of differing repeats."""

    first: dict[str, Any]
    unwritten: dict[str, Any]
    differing: int


def run(job: Job, result: Result) -> bool:
    """Write one outcome per workload."""
    subjects = Subjects(job)
    candidates = sum(bool(subject.candidate) for subject in job.subjects)
    at_once = int(job.options.get("cores", 0)) >= CORES_PER_IMPORT * (1 + candidates)
    subjects.prepare(
        only=job.workloads[0].subject if job.workloads else "", warm=PROFILER
    )  # it imports torch while this process does
    if at_once:
        subjects.prepare(warm=PROFILER)
    starting = start_beside() if int(job.options.get("gpus", 1)) == 1 else None
    import torch

    subjects.prepare(warm=PROFILER)  # without cores in plenty not before: more imports of torch at once would slow down all
    subjects.preload()  # while the driver makes the contexts of all processes, one after another
    if starting is not None:
        starting.join()
    guard.begin(job, result)
    stream = torch.cuda.Stream()

    def measure(work: Work) -> dict[str, Any]:
        with torch.cuda.stream(stream):
            subject = subjects[work.subject]
            if hasattr(subject, "run_case"):
                return cases.measure(subject, work, job.options["entries"][work.id])
            outcome = _measure(subject, work, int(job.options["repeats"]), job.options["entries"][work.id])
            is_group = isinstance(subject, RankSubject) and "missing" not in outcome
            return together.add_readings(outcome, subject, work) if is_group else outcome

    spare = max(0.0, 1.0 - KEPT_BYTES / torch.cuda.get_device_properties(0).total_memory)
    return guard.run_each(job, result, measure, subjects, spare=spare)


def _measure(subject: Any, work: Work, repeats: int, entries: Collection[str]) -> dict[str, Any]:
    inputs = subject.inputs(work.params, work.seed)
    launches = _launch_repeatedly(subject, inputs, repeats)
    not_run = _find_entry_not_run(subject, inputs, entries)
    if not_run is not None:
        return not_run
    used, inputs = inputs, subject.inputs(work.params, work.seed)
    tensors.refuse_changed(used, inputs)
    del used
    low = _reference(subject, inputs)
    _require_same_outputs(launches.first, low, "reference")
    bad = sum(tensors.bad_values(launches.first[name], low[name], mask) for name, mask in launches.unwritten.items())
    readings: dict[str, float] = {"finite/bad-values": bad, "repeat/differing-runs": launches.differing}
    exact = _reference(subject, tensors.upcast(inputs))
    _require_same_outputs(launches.first, exact, "float64 reference")
    del inputs
    return _compare(launches.first, low, exact, readings)


def _reference(subject: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the reference. cuDNN stays out, because it plans attention of each new shape for 20 to 60 ms."""
    import torch

    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        return dict(subject.reference(inputs))
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def _launch_repeatedly(subject: Any, inputs: Mapping[str, Any], repeats: int) -> LaunchResults:
    """Launch 1 + ``repeats`` times. An element is written if it lost either poison.

    The host waits for few launches. To wait for each was slow next to other processes, which take turns on the GPU.
    """
    import torch

    outputs = subject.outputs(inputs)
    if not outputs:
        raise ValueError("outputs() gives no tensor")
    _run(subject, inputs, outputs, 0)
    first = {name: tensor.clone() for name, tensor in outputs.items()}
    kept = [{name: tensors.still_poisoned(tensor, 0) for name, tensor in first.items()}]
    differs = []
    for repeat in range(max(LATE_LAUNCHES, repeats)):
        poison, late = (repeat + 1) % 2, repeat < LATE_LAUNCHES
        _run(subject, inputs, outputs, poison, late=late, wait=late or not repeat % WAIT_EVERY)
        differs.append(tensors.differ(first, outputs))
        if late:
            kept.append({name: tensors.still_poisoned(tensor, poison) for name, tensor in outputs.items()})
    differing = int(torch.stack(differs).sum())
    unwritten = {name: kept[1][name] & (kept[0][name] | kept[2][name]) for name in first}
    return LaunchResults(first=first, unwritten=unwritten, differing=differing)


def _run(
    subject: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], poison: int, *, late: bool = False, wait: bool = True
) -> None:
    """Launch into poisoned outputs. ``late`` holds the stream meanwhile."""
    import torch

    if late and isinstance(subject, IsolatedSubject):
        subject.run_held(inputs, outputs, poison)
        return
    if late:
        torch.cuda._sleep(HOLD_CYCLES)  # noqa: SLF001 - nothing public holds a stream; PyTorch's own tests use it
    tensors.poison(outputs, poison)
    subject.run(MappingProxyType(inputs), MappingProxyType(outputs))
    if wait:
        torch.cuda.synchronize()


def _find_entry_not_run(subject: Any, inputs: Mapping[str, Any], entries: Collection[str]) -> dict[str, Any] | None:
    if not entries:
        return None
    outputs = subject.outputs(inputs)
    if hasattr(subject, "kernels"):
        seen = subject.kernels(inputs, outputs)
        absent = sorted(set(entries) - seen)
        return missing(Code.KERNEL_NOT_SEEN, f"{absent[0]} never ran") if absent else None
    with kernels_seen.watching() as names:
        _run(subject, inputs, outputs, 0)
    seen = names()
    if not seen:
        return missing(Code.TOOL_FAILED, "PyTorch's profiler saw no launch, not even the one that fills the outputs")
    absent = sorted(set(entries) - seen)
    return missing(Code.KERNEL_NOT_SEEN, f"{absent[0]} never ran") if absent else None


def _compare(
    first: Mapping[str, Any], low: Mapping[str, Any], exact: Mapping[str, Any], readings: dict[str, float]
) -> dict[str, Any]:
    differences = {name: tensors.largest_difference(first[name], low[name]) for name in first}
    errors = [error_of(name, first[name], low[name], exact[name]) for name in first]
    name = max(differences, key=lambda name: _rank_nan_first(differences[name].value))
    error = max(errors, key=lambda error: _rank_nan_first(error.ratio))
    worst = differences[name]
    readings |= {"diff/max": worst.value, "error/ratio": error.ratio, **_rms_errors(first, low, exact)}
    return {
        "readings": {metric: json_number(value) for metric, value in readings.items()},
        "histograms": _histograms(first, low, exact),
        "notes": [
            f"largest difference in {name}{list(worst.index)}: {worst.first:.6g}, PyTorch {worst.second:.6g}",
            f"largest error against float64 in {error.name}{list(error.worst.index)}: {error.worst.value:.3g}",
            f"PyTorch's largest error for this output: {error.pytorch:.3g}; allowance {error.allowance:.3g}",
        ],
    }


def _rms_errors(first: Mapping[str, Any], low: Mapping[str, Any], exact: Mapping[str, Any]) -> dict[str, float]:
    """Return the worst output's RMS error, relative to float64 and to the reference's own error."""
    errors = [(tensors.rms_error(first[name], exact[name]), tensors.rms_error(low[name], exact[name])) for name in first]
    ratios = (math.nan if math.isinf(own) else tensors.divide(error, own) for error, own in errors)
    worst, ratio = (max(values, key=_rank_nan_first) for values in ((error for error, _ in errors), ratios))
    return {"error/rms": worst, "error/rms-ratio": ratio}


def _histograms(first: Mapping[str, Any], low: Mapping[str, Any], exact: Mapping[str, Any]) -> dict[str, Any]:
    sides = {"ours": first, "pytorch": low}
    pairs = [(name, side) for name in list(first)[:MAX_HISTOGRAMS] for side in sides]
    return {f"error/{side}/{name}": tensors.error_histogram(sides[side][name], exact[name]) for name, side in pairs}


def error_of(name: str, output: Any, low: Any, exact: Any) -> OutputAccuracy:
    """Compare an output and PyTorch's ``low`` with ``exact`` (float64)."""
    worst, pytorch = (tensors.largest_difference(given, exact) for given in (output, low))
    allowance = 2.0 * tensors.rounding_error(low.to(output.dtype))
    return OutputAccuracy(name=name, worst=worst, pytorch=pytorch.value, allowance=allowance)


def _rank_nan_first(value: float) -> float:
    return float("inf") if value != value else value  # noqa: PLR0124 - only NaN differs from itself


def _require_same_outputs(outputs: Mapping[str, Any], reference: Mapping[str, Any], what: str) -> None:
    """Raise ValueError if names or shapes differ: broadcasting would hide it."""
    if set(outputs) != set(reference):
        raise ValueError(f"outputs are {sorted(outputs)}, the {what} gives {sorted(reference)}")
    if not any(bool(tensor.isfinite().any()) for tensor in reference.values()):
        raise ValueError(f"the {what} holds no finite number to compare with")
    for name, tensor in outputs.items():
        if tensor.is_complex():
            raise ValueError(f"{name} is complex: give its real and imaginary parts")
        if tensor.shape != reference[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the {what} {tuple(reference[name].shape)}")
