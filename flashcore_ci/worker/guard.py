"""Run each workload of a job, and turn exceptions into outcomes."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import connection, file_reads, foreign_files, libraries
from flashcore_ci.worker.channel import ProtocolError
from flashcore_ci.worker.file_reads import is_inside, resolved
from flashcore_ci.worker.group import RanksDisagreeError
from flashcore_ci.worker.job import Job, Result, Work, missing
from flashcore_ci.worker.subject_file import Subjects, last_line
from flashcore_ci.worker.supervisor import NotIsolatedError

Action = Callable[[Work], dict[str, Any]]
POLL_SECONDS = 0.005
NO_MEMORY = ("out of memory", "ALLOC_FAILED")
"""Texts of the driver, launchers and cuBLAS. PyTorch raises OutOfMemoryError only for its own allocator."""


def run_each(job: Job, result: Result, action: Action, subjects: Subjects, *, spare: float = 0.0) -> bool:
    """Run all workloads, or False if CUDA is lost. ``spare``: memory not to free."""
    try:
        with libraries.kept_apart(job) as opened:
            return _run_each(job, result, partial(_attempt_apart, opened, action), subjects, spare)
    finally:
        subjects.end()


def _attempt_apart(opened: libraries.Libraries, action: Action, work: Work) -> dict[str, Any]:
    """Return the outcome, or that the workload used the library of another subject, also where it caught the exception."""
    opened.begin(work.subject)
    outcome = attempt(work, action)
    return missing(Code.FOREIGN_KERNEL, opened.refused) if opened.refused else outcome


def _run_each(job: Job, result: Result, action: Action, subjects: Subjects, spare: float) -> bool:
    import torch

    file_reads.watch(job.root)
    known: set[str] = set()
    for work in job.workloads:
        result.start(work.id)
        began = time.monotonic()
        outcome = action(work)
        new = file_reads.module_files() - known  # of a thousand modules few are new: to ask for all took 14 ms per workload
        if "missing" not in outcome:
            outcome = _find_uncovered(job, new) or outcome
        known |= new if "missing" not in outcome else set()
        broken = context_error()
        if broken:
            outcome = missing(Code.CRASH, broken)
        if (isolation := subjects.isolation(work.subject)) is not None:
            outcome["isolation"] = isolation
        outcome["seconds"] = round(time.monotonic() - began, 3)
        result.finish(work.id, outcome)
        if broken:
            return False
        used = torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory
        if used > 1.0 - spare or not spare:
            gc.collect()
            gc.freeze()  # imports remain: collecting them again took 0.1 s per workload
            torch.cuda.empty_cache()
    return True


def _find_uncovered(job: Job, new: set[str]) -> dict[str, Any] | None:
    """Return the outcome if the process read a file that no digest covers. ``new``: files of modules since the last workload."""
    if file := undeclared_import(job, new):
        why = "no import and no string of the subject names" if job.options.get("exact") else "build() does not name in binding"
        return missing(Code.RAISED, f"reads {file}, which {why}, or reads its source: changes would go unseen")
    if file := foreign_files.find(job, new):
        return missing(Code.RAISED, f"imports {file}, another copy of this repository: install it with pip install -e, in place")
    if (pair := foreign_files.find_replaced(job, new)) is not None:
        why = "imports {} in place of {}, which it differs from: install the package of this checkout again".format(*pair)
        return missing(Code.RAISED, why)
    if (read := file_reads.candidate_read(_candidate_files(job))) is not None:
        return missing(Code.RAISED, f"the definition reads {read.name} of the candidate, so both sides could be one")
    return None


def _candidate_files(job: Job) -> set[Path]:
    return {resolved(str(job.root / file)) for subject in job.subjects for file in subject.candidate}


def attempt(work: Work, action: Action) -> dict[str, Any]:
    """Return the outcome of the action or of its exception."""
    import torch

    try:
        return action(work)
    except torch.cuda.OutOfMemoryError as error:
        return missing(Code.OUT_OF_MEMORY, last_line(error))
    except ProtocolError as error:
        code = Code.HANG if error.late else Code.CRASH if error.closed else Code.RAISED
        return missing(code, f"the candidate's process: {error}")
    except RanksDisagreeError as error:
        return missing(Code.RANKS_DISAGREE, str(error))
    except NotIsolatedError as error:
        return missing(Code.NOT_ISOLATED, str(error))
    except Exception as error:  # noqa: BLE001 - a subject may raise anything
        text = last_line(error)
        return missing(Code.OUT_OF_MEMORY if any(phrase in text for phrase in NO_MEMORY) else Code.RAISED, text)


def undeclared_import(job: Job, files: set[str] | None = None) -> str:
    """Return a file of the checkout that was imported (``files``, or all) or read and that no subject declares, or ""."""
    declared = job.options.get("python")
    if declared is None:
        return ""
    known = {resolved(str(job.root / file)) for file in declared}
    root, exempt = resolved(str(job.root)), [resolved(sys.prefix), resolved(__file__).parents[1]]
    exempt += [resolved(folder) for folder in (job.options.get("caches"),) if folder]
    loaded = {resolved(file) for file in (file_reads.module_files() if files is None else files)}
    inside = (path for path in loaded - known if is_inside(path, root))
    libraries = {resolved(str(subject.library)) for subject in job.subjects if subject.library is not None}
    if job.options.get("exact"):
        libraries |= known
    read = {path for path in file_reads.undeclared(known, libraries) if is_inside(path, root)}
    undeclared = (path for path in {*inside, *read} if not any(is_inside(path, folder) for folder in exempt))
    return min((path.relative_to(root).as_posix() for path in undeclared), default="")


def context_error() -> str:
    """Return why the CUDA context is lost, or ""."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return last_line(error)
    return ""


def begin(job: Job, result: Result, started: Callable[[], None] = lambda: None) -> None:
    """Import torch, wait for the start signal, then touch the GPU and record it. ``started`` is called after the signal.

    ``options["cores"]`` is the share of the machine's cores: threads of two processes that each use all of them wait for each other.
    """
    import torch

    if "cores" in job.options:
        torch.set_num_threads(min(torch.get_num_threads(), max(1, int(job.options["cores"]))))

    signal = job.options.get("go")
    if signal is not None:
        undeclared_import(job)  # resolves all paths once, while another process measures
        wait_for(Path(signal))
    started()
    gpu = torch.cuda.get_device_properties(0)
    facts = {"device": gpu.name, "multiprocessors": gpu.multi_processor_count, "l2": gpu.L2_cache_size}
    result.environment(torch=torch.__version__, **facts)
    if "rank" in job.options:
        result.environment(nccl=connection.connect(job, "cpu:gloo,cuda:nccl"))


def wait_for(path: Path) -> None:
    """Wait for a file. TimeoutError if the collector ends before."""
    parent = os.getppid()
    while not path.exists():
        if os.getppid() != parent:
            raise TimeoutError(f"the signal {path} did not appear")
        time.sleep(POLL_SECONDS)
