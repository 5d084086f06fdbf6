"""What must be true of launches that were timed, asked when the clock has stopped: a time of no work is no time."""

from __future__ import annotations

from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.buffers import Set, Sets
from flashcore_ci.worker.launchers import Way

OTHER_SEED = 1_000_003  # far from those of the sets
TRIES = 3
LONGER = 1.25
HOST_MS = 0.2
MOST_ERROR = 0.02


class OutputChangedError(Exception):
    """A timed launch did not compute what it should."""


def audit(sets: Sets, way: Way, ms: float, audited: Set, *, by_reference: bool) -> None:
    """OutputChangedError or ValueError with the reason, if the launches on ``sets``, of ``ms`` each, were not honest work.

    ``audited`` is the set of a launch drawn at random, whose output was found to be the first one's; ``by_reference`` asks
    the reference too, which takes long: one workload of a process is enough, if nobody knows which.
    """
    if any(bool(tensors.still_poisoned(tensor, 0).any()) for tensor in audited.first.values()):
        raise OutputChangedError("a timed launch left some of its output unwritten")
    if outlasts(way, ms):
        raise OutputChangedError(
            "the device is still at work when a launch's stream is done: work on another stream is not timed"
        )
    if beside := sets.fences.broken():
        raise ValueError(f"wrote beside {beside}, outside of its memory")
    if by_reference and far_off(audited.first, sets.subject.reference(tensors.upcast(audited.inputs))):
        raise OutputChangedError("a timed launch, drawn at random, gave nothing like the reference")
    tensors.refuse_changed(audited.inputs, sets.subject.inputs(sets.work.params, audited.seed))
    if replays(sets, way):
        raise OutputChangedError("on other values at the same addresses a launch gave what these values do not give")


def outlasts(way: Way, ms: float) -> bool:
    """Whether the clock, stopped only when the whole device is at rest, shows much more than that of the stream."""
    import torch

    joined = []
    for _ in range(TRIES):
        start, _ = way.launch()
        torch.cuda.synchronize()
        stop = torch.cuda.Event(enable_timing=True)
        stop.record()
        stop.synchronize()
        joined.append(start.elapsed_time(stop))
    return not min(joined) <= LONGER * ms * way.launches + HOST_MS


def far_off(outputs: Any, reference: Any) -> bool:
    """Whether any output is, on average, more than 2 % off. Correctness is judged elsewhere and finer: this tells work from none."""
    return any(not tensors.mean_error(outputs[name], reference[name]) <= MOST_ERROR for name in outputs)


def replays(sets: Sets, way: Way) -> bool:
    """Whether a timed launch on other values differs, in any bit, from a launch on these values elsewhere in memory."""
    subject, used = sets.subject, sets.all[0]
    fresh = subject.inputs(sets.work.params, OTHER_SEED + sets.work.seed)
    others = {name: fresh[name] if tensors.may_change(value, fresh[name]) else value for name, value in used.inputs.items()}
    expected = subject.outputs(others)
    tensors.poison(expected, 0)
    subject.run(others, expected)
    for name, value in others.items():
        if value is not used.inputs[name]:
            used.inputs[name].copy_(value)
    for _ in sets.all if way.launches == 1 else (used,):  # one at a time: until it was the turn of this set
        way.launch()
    return not tensors.same_bits(expected, used.outputs)
