"""Launch each workload a few times under a tool, between two markers."""

from __future__ import annotations

from typing import Any

from flashcore_ci.worker import guard, messages
from flashcore_ci.worker.driver import Driver, make_context
from flashcore_ci.worker.job import Job, Result, Work
from flashcore_ci.worker.subject_file import Subjects


def run(job: Job, result: Result) -> bool:
    """Write one outcome per workload."""
    import torch

    make_context()
    guard.begin(job, result)
    driver, subjects = Driver(), Subjects(job)
    order = {work.id: index for index, work in enumerate(job.workloads)}

    def launch(work: Work) -> dict[str, Any]:
        subject = subjects[work.subject]
        parts = messages.alone(job, work, subject) if "messages" in job.options else [subject]
        inputs = [part.inputs(work.params, work.seed) for part in parts]
        outputs = [part.outputs(given) for part, given in zip(parts, inputs, strict=True)]
        torch.cuda.synchronize()
        driver.begin(order[work.id])
        launches = int(job.options["launches"])
        for _ in range(launches):
            for part, given, written in zip(parts, inputs, outputs, strict=True):
                part.run(given, written)
                torch.cuda.synchronize()
        driver.end(order[work.id])
        for part in parts if "messages" in job.options else ():
            part.group.require_recorded()
        return {"launches": launches}

    return guard.run_each(job, result, launch, subjects)
