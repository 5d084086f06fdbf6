"""Run each workload once under a profiler, in an NVTX range with its id."""

from __future__ import annotations

from typing import Any

from flashcore_ci.worker import guard
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.job import Job, Result, Work
from flashcore_ci.worker.subject_file import Subjects

WARM_UPS = 2


def run(job: Job, result: Result) -> bool:
    """Write one outcome per workload."""
    import torch

    is_trusted = not any(subject.candidate for subject in job.subjects)
    early = Driver() if is_trusted else None  # before the start signal: under ncu the context takes a second
    guard.begin(job, result)
    driver, subjects = early or Driver(), Subjects(job)

    def profile(work: Work) -> dict[str, Any]:
        subject = subjects[work.subject]
        inputs = subject.inputs(work.params, work.seed)
        outputs = subject.outputs(inputs)
        for _ in range(WARM_UPS):
            subject.run(inputs, outputs)
        torch.cuda.synchronize()
        driver.profiler_start()
        torch.cuda.nvtx.range_push(work.id)
        try:
            subject.run(inputs, outputs)
            torch.cuda.synchronize()
        finally:
            torch.cuda.nvtx.range_pop()
            driver.profiler_stop()
        return {"runs": 1}

    return guard.run_each(job, result, profile, subjects)
