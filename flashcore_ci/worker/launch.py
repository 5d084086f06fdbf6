"""Job ``launch``: each workload some times under a tool that watches, between two marks, counted."""

from __future__ import annotations

from typing import Any

from flashcore_ci.worker import guard
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.job import Job, Result, Work
from flashcore_ci.worker.subject_file import Subjects


def run(job: Job, result: Result) -> bool:
    """One outcome a workload: how often it ran to its end."""
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
        ran = 0
        for _ in range(int(job.options["launches"])):
            subject.run(inputs, outputs)
            torch.cuda.synchronize()
            ran += 1
        driver.end(order[work.id])
        return {"launches": ran}

    return guard.each(job, result, launch)
