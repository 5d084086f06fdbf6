"""Call each subject's ``build`` and ``problem``, without torch or a GPU."""

from __future__ import annotations

from typing import Any

from flashcore_ci.model.errors import group_mistakes
from flashcore_ci.worker.imports import missing_imports
from flashcore_ci.worker.job import Job, Result, Subject
from flashcore_ci.worker.subject_file import last_line, load, location_in


def run(job: Job, result: Result) -> bool:
    """Write one outcome per subject."""
    for subject in job.subjects:
        result.start(subject.name)
        result.finish(subject.name, _describe(job, subject))
    return True


def _describe(job: Job, subject: Subject) -> dict[str, Any]:
    try:
        module = load(subject)
        build = module.build(job.root)
    except Exception as error:  # noqa: BLE001 - a subject's file may raise anything
        inside = ". Import it inside of the functions that use it" if isinstance(error, ModuleNotFoundError) else ""
        return {"problems": [f"{location_in(subject.file)}{last_line(error)}{inside}"]}
    absent = missing_imports(subject.file, job.root)
    if absent:
        return {"problems": absent}
    mistakes, problems = [], []
    for workload in job.workloads:
        if workload.subject != subject.name:
            continue
        try:
            problems.append({**module.problem(workload.params), "workload": workload.id})
        except Exception as error:  # noqa: BLE001 - as above
            mistakes.append((workload.id, last_line(error)))
    if mistakes:
        return {"problems": group_mistakes(mistakes)}
    return {"description": {"build": build, "problems": problems}}
