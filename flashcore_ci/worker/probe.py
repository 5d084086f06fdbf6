"""Job ``probe``: does this GPU compute at all? Known-good kernels with known answers, from torch and from the driver."""

from __future__ import annotations

import sys

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import guard
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.job import Job, Result, missing

COUNT = 1 << 20
SIDE = 512


def run(job: Job, result: Result) -> bool:
    """One outcome, ``probe``: ``ok``, or what is wrong with the machine."""
    import torch  # noqa: F401 - an interpreter without it says nothing about the GPU: the probe has not begun

    result.start("probe")
    guard.begin(job, result)
    wrong = check()
    result.environment(python=sys.version.split()[0])
    result.finish("probe", missing(Code.DEVICE_UNHEALTHY, wrong) if wrong else {"ok": True})
    return True


def check() -> str:
    """What is wrong, in one line; empty if nothing is."""
    import torch

    total = int((torch.arange(COUNT, device="cuda") * 2 + 1).sum())
    if total != COUNT * COUNT:
        return f"the sum of the first {COUNT} odd numbers came out as {total}"
    ones = torch.ones((SIDE, SIDE), dtype=torch.float16, device="cuda")
    if not bool((ones @ ones == SIDE).all()):
        return "a matrix product of ones came out wrong"
    driver = Driver()
    before, after = driver.tick(), driver.tick()
    torch.cuda.synchronize()
    if not driver.megahertz(before, after) > 0:
        return "the clocks of the multiprocessors stand still"
    return ""
