"""Run ``python -m flashcore_ci.worker JOB RESULT``.

Exit status: 0 done, 1 with a traceback, 2 usage, 3 CUDA context lost.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from flashcore_ci.worker import file_reads, foreign_files, ranks, turns
from flashcore_ci.worker.job import Job, Result

JOBS = {
    **{
        kind: kind
        for kind in ("describe", "versions", "probe", "correctness", "launch", "profile", "timing", "machine_code", "estimate")
    },
    "control": "planted_bug",
    "messages": "messages",
}
"""The module of each kind of job."""
CONTEXT_LOST = 3
OWN_CODE = frozenset({"probe", "correctness", "timing"})
"""Jobs without a tool. Where only candidates run, an orderly end takes 0.3 s and finds nothing."""


def main(argv: list[str], leave: Callable[[int], object] = int) -> int:
    """Run the job file, and write the result file. ``leave`` ends a process without foreign code."""
    if len(argv) != 2:  # noqa: PLR2004 - JOB and RESULT
        sys.stderr.write("usage: python -m flashcore_ci.worker JOB RESULT\n")
        return 2
    job = Job.read(Path(argv[0]))
    if job.kind not in JOBS:
        sys.stderr.write(f"unknown job kind {job.kind!r}\n")
        return 2
    result = Result(job, Path(argv[1]))
    result.write()
    file_reads.ignore_bytecode(job.root)
    foreign_files.redirect(job)
    turns.use(str(job.options.get("turns", "")), job.kind)
    is_group = job.kind in ranks.TOGETHER and int(job.options.get("gpus", 1)) > 1
    completed = (
        ranks.lead(job, result) if is_group else importlib.import_module(f"flashcore_ci.worker.{JOBS[job.kind]}").run(job, result)
    )
    if not completed:
        return CONTEXT_LOST
    result.done()
    if job.kind in OWN_CODE and all(subject.candidate for subject in job.subjects):
        leave(0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os._exit))
