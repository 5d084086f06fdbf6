"""Check the roof that a workload declares with the roofline model.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009. The ridge is the intensity (FLOP/byte) at which the device's two ceilings meet.
"""

from __future__ import annotations

import math

from flashcore_ci.model.subject import Problem
from flashcore_ci.model.suite import Ridge, Roof

FACTOR = 4.0


def ridge_point(ridge: Ridge) -> float:
    """Return the ridge in FLOP/byte."""
    return ridge.flops / ridge.bandwidth


def intensity(problem: Problem) -> float:
    """Return the FLOP/byte, infinite if no byte moves."""
    return problem.flops / problem.bytes if problem.bytes > 0 else math.inf


def right_roof(problem: Problem, ridge: Ridge) -> Roof:
    """Return the right roof: ``balanced`` within 4 x of the ridge."""
    ratio = intensity(problem) / ridge_point(ridge)
    if ratio <= 1 / FACTOR:
        return Roof.MEMORY
    return Roof.COMPUTE if ratio >= FACTOR else Roof.BALANCED


def is_wrong_roof(declared: Roof, problem: Problem, ridge: Ridge) -> bool:
    """Tell whether ``declared`` is wrong by a factor of 4."""
    right = right_roof(problem, ridge)
    return right is not Roof.BALANCED and declared is not right
