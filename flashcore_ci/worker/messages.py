"""Record the messages of a group, so that each rank can run alone under a tool.

A sanitizer would wait forever for a kernel that waits for another process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flashcore_ci.worker import file_reads, guard
from flashcore_ci.worker.group import Message, Playback, RankSubject
from flashcore_ci.worker.job import Job, Result, Work
from flashcore_ci.worker.subject_file import Subjects


def run(job: Job, result: Result) -> bool:
    """Run each workload once as a group, and write what this rank sent and received."""
    guard.begin(job, result)
    subjects = Subjects(job)

    def record(work: Work) -> dict[str, Any]:
        import torch

        subject = subjects[work.subject]
        subject.group.keeps = True
        inputs = subject.inputs(work.params, work.seed)
        messages = subject.group.listen(lambda: subject.run(inputs, subject.outputs(inputs)))
        torch.cuda.synchronize()
        kept = [(message.kind, message.sent.cpu(), message.received.cpu()) for message in messages]
        torch.save(kept, _file(job, work, subject.group.rank))
        return {"messages": len(kept)}

    return guard.run_each(job, result, record, subjects)


def alone(job: Job, work: Work, module: Any) -> list[RankSubject]:
    """Return each rank of a group, to run alone with its recorded messages."""
    import torch

    found = []
    for rank in range(int(job.options["gpus"])):
        with file_reads.unrecorded():
            kept = torch.load(_file(job, work, rank), weights_only=True)
        messages = [Message(kind=kind, sent=sent, received=received.cuda()) for kind, sent, received in kept]
        found.append(RankSubject(module, Playback(rank, int(job.options["gpus"]), messages), b"", b""))
    return found


def _file(job: Job, work: Work, rank: int) -> Path:
    return Path(job.options["messages"]) / f"{work.id}-{rank}.pt"
