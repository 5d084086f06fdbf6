"""Run known-good kernels with known answers."""

from __future__ import annotations

import sys

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import guard
from flashcore_ci.worker.driver import Driver, make_context
from flashcore_ci.worker.job import Job, Result, missing

COUNT = 1 << 20
SIDE = 512


def run(job: Job, result: Result) -> bool:
    """Write one outcome, ``probe``."""
    import torch  # noqa: F401 - without torch the probe must fail before it begins: that says nothing about the GPU

    result.start("probe")
    make_context()
    guard.begin(job, result)
    wrong = check()
    result.environment(python=sys.version.split()[0])
    result.finish("probe", missing(Code.DEVICE_UNHEALTHY, wrong) if wrong else {"ok": True})
    return True


def check() -> str:
    """Return what is wrong, or ""."""
    import torch

    total = int((torch.arange(COUNT, device="cuda") * 2 + 1).sum())
    if total != COUNT * COUNT:
        return f"the sum of the first {COUNT} odd numbers is {total}, not {COUNT * COUNT}"
    ones = torch.ones((SIDE, SIDE), dtype=torch.float16, device="cuda")
    if not bool((ones @ ones == SIDE).all()):
        return "a matrix product of ones gave wrong values"
    driver = Driver()
    before, after = driver.tick(), driver.tick()
    torch.cuda.synchronize()
    if not driver.megahertz(before, after) > 0:
        return "the clock counters of the SMs do not advance"
    return ""
