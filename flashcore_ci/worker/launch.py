"""Launch each workload a few times under a tool, between two markers."""

from __future__ import annotations

from typing import Any

from flashcore_ci.worker import guard
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.job import Job, Result, Work
from flashcore_ci.worker.subject_file import Subjects


def run(job: Job, result: Result) -> bool:
    """Write one outcome per workload."""
    import torch

    guard.begin(job, result)
    driver, subjects = Driver(), Subjects(job)
    order = {work.id: index for index, work in enumerate(job.workloads)}

    def launch(work: Work) -> dict[str, Any]:
        subject = subjects[work.subject]
        inputs = subject.inputs(work.params, work.seed)
        outputs = subject.outputs(inputs)
        torch.cuda.synchronize()
        driver.begin(order[work.id])
        launches = int(job.options["launches"])
        for _ in range(launches):
            subject.run(inputs, outputs)
            torch.cuda.synchronize()
        driver.end(order[work.id])
        return {"launches": launches}

    return guard.run_each(job, result, launch, subjects)
