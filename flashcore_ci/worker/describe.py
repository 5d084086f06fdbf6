"""Job ``describe``: what each subject says of its build and of each workload's problem. No torch, no GPU."""

from __future__ import annotations

from typing import Any

from flashcore_ci.model.errors import group_mistakes
from flashcore_ci.worker.job import Job, Result, Subject
from flashcore_ci.worker.subject_file import here, last_line, load


def run(job: Job, result: Result) -> bool:
    """One outcome for each subject: ``description``, or ``problems`` that name what is wrong."""
    for subject in job.subjects:
        result.start(subject.name)
        result.finish(subject.name, _describe(job, subject))
    return True


def _describe(job: Job, subject: Subject) -> dict[str, Any]:
    try:
        module = load(subject)
        build = module.build(job.root)
    except Exception as error:  # noqa: BLE001 - a subject's file may raise anything; it becomes a named problem
        return {"problems": [f"{here(subject.file)}{last_line(error)}"]}
    mistakes, asked = [], []
    for workload in job.workloads:
        if workload.subject != subject.name:
            continue
        try:
            asked.append({"workload": workload.id, **module.problem(workload.params)})
        except Exception as error:  # noqa: BLE001 - as above
            mistakes.append((workload.id, last_line(error)))
    if mistakes:
        return {"problems": group_mistakes(mistakes)}
    return {"description": {"build": build, "problems": asked}}
