"""Check that timed launches did their work."""

from __future__ import annotations

import math
from typing import Any

from flashcore_ci.worker import tensors, unjoined
from flashcore_ci.worker.buffers import BufferPool, BufferSet
from flashcore_ci.worker.group import RankSubject
from flashcore_ci.worker.launchers import LEAST_MS, Launcher

OTHER_SEED = 1_000_003  # far from those of the buffer sets
MAX_MEAN_ERROR = 0.02
START_MS, START_SHARE = 0.03, 0.05
"""What starts a graph at most: it took 7 to 17 µs on H200s. Or a share of all launches, because the first ones are slower."""
LARGEST_OWN_ERROR = 2.0**-5
"""Half of the last bit of E4M3, on average over a binade: what the coarsest type may cost (docs/fp8.md)."""


class OutputChangedError(Exception):
    """A timed launch did not compute what it should."""


class UnlikeGraphsError(Exception):
    """The slope of two graphs may not be the time of a launch. On other GPUs than H200s a graph may also start later."""


def audit(pool: BufferPool, launcher: Launcher, ms: float, mhz: float, audited: BufferSet, *, by_reference: bool) -> None:
    """Raise OutputChangedError, UnlikeGraphsError or ValueError if the launches did not do their work.

    ``ms`` is the time of one launch at the SM clock ``mhz``, ``audited`` a random launch's buffers. ``by_reference`` (slow) compares
    with the reference.
    """
    if any(bool(tensors.still_poisoned(tensor, 0).any()) for tensor in audited.first.values()):
        raise OutputChangedError("a timed launch left some of its output unwritten")
    if ms <= LEAST_MS:
        raise OutputChangedError("the longer of two graphs takes no longer")
    if launcher.start > (most := max(START_MS, START_SHARE * ms * launcher.submitted)):
        times = f"{1e3 * launcher.start:.0f} µs to start, more than {1e3 * most:.0f}"
        raise UnlikeGraphsError(
            f"two graphs take {times}: launches of the shorter one may take longer than those of the longer one"
        )
    # a launch of a group also waits for other ranks
    timed = math.inf if isinstance(pool.subject, RankSubject) else ms * launcher.launches + launcher.start
    context = launcher.context
    observed = unjoined.observe(context.driver, launcher.launch, launcher.again, context.worst)
    if found := unjoined.describe(observed, timed, mhz):
        raise OutputChangedError(found)
    if name := pool.redzones.overwritten():
        raise ValueError(f"wrote next to {name}, outside of its memory")
    if by_reference and is_far_off(pool.subject, audited.inputs, audited.first):
        raise OutputChangedError("a timed launch, drawn at random, is more than 2 % off the reference")
    tensors.refuse_changed(audited.inputs, pool.subject.inputs(pool.work.params, audited.seed))
    if replays_results(pool, launcher):
        raise OutputChangedError("a launch on other values at the same addresses did not compute their output")


def is_far_off(subject: Any, inputs: Any, outputs: Any) -> bool:
    """Return whether an output is over 2 % off on average, and over twice what the reference's own rounding costs."""
    exact = subject.reference(tensors.upcast(inputs))
    if not far_from(outputs, exact):
        return False
    low = subject.reference(inputs)
    return any(
        not tensors.mean_error(outputs[name], exact[name]) <= allowed_error(tensors.mean_error(low[name], exact[name]))
        for name in outputs
    )


def allowed_error(own: float) -> float:
    """Return the largest mean error of a launch whose reference, in the inputs' type, is ``own`` off on the same inputs.

    The factor is that of ``error-ratio``. A reference cannot allow more than the coarsest type costs, or anything if it overflows.
    """
    if not math.isfinite(own):
        return MAX_MEAN_ERROR
    return max(MAX_MEAN_ERROR, tensors.ALLOWED_TIMES * min(own, LARGEST_OWN_ERROR))


def far_from(outputs: Any, reference: Any) -> bool:
    """Return whether an output is over 2 % off on average."""
    return any(not tensors.mean_error(outputs[name], reference[name]) <= MAX_MEAN_ERROR for name in outputs)


def replays_results(pool: BufferPool, launcher: Launcher) -> bool:
    """Return whether a launch ignores new values at its addresses."""
    subject, used = pool.subject, pool.sets[0]
    fresh = subject.inputs(pool.work.params, OTHER_SEED + pool.work.seed)
    changed = {name: fresh[name] if tensors.may_change(value, fresh[name]) else value for name, value in used.inputs.items()}
    expected = subject.outputs(changed)
    tensors.poison(expected, 0)
    subject.run(changed, expected)
    for name, value in changed.items():
        if value is not used.inputs[name]:
            used.inputs[name].copy_(value)
    for _ in pool.sets if launcher.launches == 1 else (used,):  # single launches go round all sets, so this one was launched too
        launcher.launch(bool)  # of graphs the longer one alone: the shorter one would renew what was kept
    return not tensors.same_bits(expected, used.outputs)
