"""Whether the roof that a workload declares can be the one that it runs into.

The roofline model: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009. A problem's arithmetic intensity (FLOP a byte) is compared with the ridge, where the two
ceilings of the device meet; a declaration is refused when it is wrong by a factor of 4 or more.
"""

from __future__ import annotations

import math

from flashcore_ci.model.subject import Problem
from flashcore_ci.model.suite import Ridge, Roof

FACTOR = 4.0


def ridge_point(ridge: Ridge) -> float:
    """FLOP a byte at which the device's compute and memory ceilings meet."""
    return ridge.flops / ridge.bandwidth


def intensity(problem: Problem) -> float:
    """FLOP a byte; infinite when nothing has to move."""
    return problem.flops / problem.bytes if problem.bytes > 0 else math.inf


def right_roof(problem: Problem, ridge: Ridge) -> Roof:
    """The roof that the intensity speaks for; ``balanced`` within a factor of 4 of the ridge."""
    ratio = intensity(problem) / ridge_point(ridge)
    if ratio <= 1 / FACTOR:
        return Roof.MEMORY
    return Roof.COMPUTE if ratio >= FACTOR else Roof.BALANCED


def is_wrong_roof(declared: Roof, problem: Problem, ridge: Ridge) -> bool:
    """Whether ``declared`` is wrong by a factor of 4 or more; near the ridge every declaration is let through."""
    right = right_roof(problem, ridge)
    return right is not Roof.BALANCED and declared is not right
