"""Compare each workload with PyTorch, with float64, and with itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.model.coverage import describe_foreign, foreign_entries
from flashcore_ci.worker import cases, guard, kernels_seen, tensors, together
from flashcore_ci.worker.candidate import PROFILER
from flashcore_ci.worker.driver import Hold, start_beside
from flashcore_ci.worker.group import RankSubject
from flashcore_ci.worker.isolated_subject import IsolatedSubject
from flashcore_ci.worker.job import Job, Result, Work, json_number, missing
from flashcore_ci.worker.subject_file import Subjects
from flashcore_ci.worker.tensors import Pending

WAIT_EVERY = 50  # launches: each wait takes up to 20 ms next to other processes
LATE_LAUNCHES = 2  # on a held stream, so that work on another stream comes too early and counts as never written
HOLD_MICROSECONDS = 10_000  # longer than it takes to submit a launch
TURN_CYCLES = 2_000_000
"""About 1 ms on the GPU after a hold. Processes take turns there, and one may wait for 20 ms: work on another stream then began with the poison,
or after it, and counted as written."""
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
    """First outputs, unwritten elements, and the number of differing repeats."""

    first: dict[str, Any]
    unwritten: dict[str, Any]
    differing: Pending[int]


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
            subject, entries = subjects[work.subject], job.options["entries"][work.id]
            foreign = foreign_entries(job.options.get("manifest", {}), work.subject, entries)
            if hasattr(subject, "run_case"):
                return cases.measure(subject, work, entries, foreign)
            outcome = _measure(subject, work, int(job.options["repeats"]), entries, foreign)
            is_group = isinstance(subject, RankSubject) and "missing" not in outcome
            return together.add_readings(outcome, subject, work) if is_group else outcome

    spare = max(0.0, 1.0 - KEPT_BYTES / torch.cuda.get_device_properties(0).total_memory)
    return guard.run_each(job, result, measure, subjects, spare=spare)


def _measure(subject: Any, work: Work, repeats: int, entries: Collection[str], foreign: Mapping[str, str]) -> dict[str, Any]:
    inputs = subject.inputs(work.params, work.seed)
    launches = _launch_repeatedly(subject, inputs, repeats)
    other_kernels = _find_other_kernels(subject, inputs, entries, foreign)
    if other_kernels is not None:
        return other_kernels
    used, inputs = inputs, subject.inputs(work.params, work.seed)
    tensors.refuse_changed(used, inputs)
    del used
    low = _reference(subject, inputs)
    checks = [_require_same_outputs(launches.first, low, "reference")]
    bad = [tensors.bad_values(launches.first[name], low[name], mask) for name, mask in launches.unwritten.items()]
    exact = _reference(subject, tensors.upcast(inputs))
    checks += [_require_same_outputs(launches.first, exact, "float64 reference")]
    del inputs
    counts = {"finite/bad-values": bad, "repeat/differing-runs": [launches.differing]}
    return _compare(launches.first, low, exact, counts, checks)


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
    differing = Pending(torch.stack(differs).sum().double().reshape(1), lambda numbers: int(numbers[0]))
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
        _hold()(HOLD_MICROSECONDS)
        torch.cuda._sleep(TURN_CYCLES)  # noqa: SLF001 - nothing public occupies a stream; PyTorch's own tests use it
    tensors.poison(outputs, poison)
    subject.run(MappingProxyType(inputs), MappingProxyType(outputs))
    if wait:
        torch.cuda.synchronize()


@cache
def _hold() -> Hold:
    return Hold()


def _find_other_kernels(
    subject: Any, inputs: Mapping[str, Any], entries: Collection[str], foreign: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the outcome if a launch runs a ``foreign`` kernel, or not all ``entries``."""
    if not entries and not foreign:
        return None
    outputs = subject.outputs(inputs)
    if hasattr(subject, "kernels"):
        seen = subject.kernels(inputs, outputs)
    else:
        with kernels_seen.watching() as names:
            _run(subject, inputs, outputs, 0)
        seen = names()
        if entries and not seen:
            return missing(Code.TOOL_FAILED, "PyTorch's profiler saw no launch, not even the one that fills the outputs")
    if ran := describe_foreign(seen, foreign):
        return missing(Code.FOREIGN_KERNEL, ran)
    absent = sorted(set(entries) - seen)
    return missing(Code.KERNEL_NOT_SEEN, f"{absent[0]} never ran") if absent else None


def _compare(
    first: Mapping[str, Any],
    low: Mapping[str, Any],
    exact: Mapping[str, Any],
    counts: Mapping[str, Sequence[Pending[int]]],
    checks: Sequence[Pending[None]] = (),
) -> dict[str, Any]:
    """Compare outputs with both references. The host waits once. ``checks`` come first, and ``counts`` become readings, too."""
    asked: dict[tuple[str, str], Pending[Any]] = {("check", str(number)): check for number, check in enumerate(checks)}
    asked |= {(name, str(number)): one for name, some in counts.items() for number, one in enumerate(some)}
    for name in first:
        asked["difference", name] = tensors.largest_difference(first[name], low[name])
        asked["error", name] = error_of(name, first[name], low[name], exact[name])
        asked["rms", name] = tensors.rms_error(first[name], exact[name])
        asked["rms of pytorch", name] = tensors.rms_error(low[name], exact[name])
    sides = {"ours": first, "pytorch": low}
    for name, side in ((name, side) for name in list(first)[:MAX_HISTOGRAMS] for side in sides):
        asked["histogram", f"error/{side}/{name}"] = tensors.error_histogram(sides[side][name], exact[name])
    found = tensors.read_all(asked)

    def of(kind: str) -> dict[str, Any]:
        return {name: value for (other, name), value in found.items() if other == kind}

    readings: dict[str, float] = {name: sum(of(name).values()) for name in counts}
    return _outcome(readings, of("difference"), of("error"), (of("rms"), of("rms of pytorch")), of("histogram"))


def _outcome(
    readings: dict[str, float],
    differences: Mapping[str, tensors.Difference],
    errors: Mapping[str, OutputAccuracy],
    rms: tuple[Mapping[str, float], Mapping[str, float]],
    histograms: Mapping[str, Any],
) -> dict[str, Any]:
    """Take the worst output of each metric."""
    name = max(differences, key=lambda name: _rank_nan_first(differences[name].value))
    error = max(errors.values(), key=lambda error: _rank_nan_first(error.ratio))
    worst = differences[name]
    readings |= {"diff/max": worst.value, "error/ratio": error.ratio, **_worst_rms(*rms)}
    return {
        "readings": {metric: json_number(value) for metric, value in readings.items()},
        "histograms": dict(histograms),
        "notes": [
            f"largest difference in {name}{list(worst.index)}: {worst.first:.6g}, PyTorch {worst.second:.6g}",
            f"largest error against float64 in {error.name}{list(error.worst.index)}: {error.worst.value:.3g}",
            f"PyTorch's largest error for this output: {error.pytorch:.3g}; allowance {error.allowance:.3g}",
        ],
    }


def _worst_rms(ours: Mapping[str, float], pytorch: Mapping[str, float]) -> dict[str, float]:
    """Return the worst output's RMS error, relative to float64 and to the reference's own error."""
    ratios = [math.nan if math.isinf(pytorch[name]) else tensors.divide(ours[name], pytorch[name]) for name in ours]
    return {"error/rms": max(ours.values(), key=_rank_nan_first), "error/rms-ratio": max(ratios, key=_rank_nan_first)}


def error_of(name: str, output: Any, low: Any, exact: Any) -> Pending[OutputAccuracy]:
    """Compare an output and PyTorch's ``low`` with ``exact`` (float64)."""
    import torch

    parts = tensors.largest_difference(output, exact), tensors.largest_difference(low, exact)
    rounding = tensors.rounding_error(low.to(output.dtype))
    first, second = (part.numbers.numel() for part in parts)

    def read(numbers: Sequence[float]) -> OutputAccuracy:
        worst, pytorch = parts[0].read(numbers[:first]), parts[1].read(numbers[first : first + second])
        allowance = 2.0 * rounding.read(numbers[first + second :])
        return OutputAccuracy(name=name, worst=worst, pytorch=pytorch.value, allowance=allowance)

    return Pending(torch.cat([*(part.numbers for part in parts), rounding.numbers]), read)


def _rank_nan_first(value: float) -> float:
    return float("inf") if value != value else value  # noqa: PLR0124 - only NaN differs from itself


def _require_same_outputs(outputs: Mapping[str, Any], reference: Mapping[str, Any], what: str) -> Pending[None]:
    """Raise ValueError if names or shapes differ: broadcasting would hide it. So does the result, if it has no finite number."""
    import torch

    if set(outputs) != set(reference):
        raise ValueError(f"outputs are {sorted(outputs)}, the {what} gives {sorted(reference)}")
    for name, tensor in outputs.items():
        if tensor.is_complex():
            raise ValueError(f"{name} is complex: give its real and imaginary parts")
        if tensor.shape != reference[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the {what} {tuple(reference[name].shape)}")

    def read(numbers: Sequence[float]) -> None:
        if not any(numbers):
            raise ValueError(f"the {what} holds no finite number to compare with")

    some = [tensor.isfinite().any().double().reshape(1) for tensor in reference.values()]
    return Pending(torch.cat(some) if some else torch.zeros(1), read)
