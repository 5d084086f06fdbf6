"""Import subject files by path."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from flashcore_ci.worker import connection, file_reads
from flashcore_ci.worker.job import Job, Subject


def load(subject: Subject) -> ModuleType:
    """Import the subject under a unique module name. ``SUBJECT`` is its name."""
    name = f"flashcore_ci_subject_{''.join(c if c.isalnum() else '_' for c in subject.name)}"
    spec = importlib.util.spec_from_file_location(name, subject.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{subject.file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    vars(module)["SUBJECT"] = subject.name
    return module


class Subjects:
    """The subjects, which load their libraries at first use."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._declared = {subject.name: subject for subject in job.subjects}
        self._ready: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a subject that is ready to run."""
        subject = self._declared[name]
        if name not in self._ready:
            self._ready[name] = self._isolated(subject) if subject.candidate else self._trusted(subject)
        return self._ready[name]

    def prepare(self, ahead: int = 1, *, fresh: bool = False, only: str | None = None) -> None:
        """Start processes of candidates: one for all workloads of a subject, or with ``fresh`` one for each.

        A mistake is raised again by the first workload.
        """
        for name in (name for name, subject in self._declared.items() if subject.candidate and only in {None, name}):
            with contextlib.suppress(Exception):
                works = sum(work.subject == name for work in self._job.workloads)
                self[name].prepare(ahead, works if fresh else 1)

    def warm(self, *, profiler: bool = False, wait: bool = False, entered: bool = False) -> None:
        """Let the processes of candidates start CUDA, only those that have ``entered``, or ``wait`` for it. Measured work must."""
        for subject in (subject for name, subject in self._ready.items() if self._declared[name].candidate):
            subject.warm(profiler=profiler, wait=wait, entered=entered)

    def preload(self) -> None:
        """Import what PyTorch imports when a definition first masks attention: its compiler. It takes 2 s, in every process."""
        with file_reads.unrecorded():
            texts = [subject.file.read_bytes() for subject in self._declared.values() if subject.candidate]
        if any(b"torch.nn.attention" in text for text in texts):
            with contextlib.suppress(ImportError):
                importlib.import_module("torch.nn.attention.bias")

    def isolation(self, name: str) -> dict[str, str] | None:
        """Return what kept this subject's candidate apart, or None."""
        return getattr(self._ready.get(name), "isolation", None) if self._declared[name].candidate else None

    def end(self) -> None:
        """End every process of a candidate."""
        for subject in self._ready.values():
            if hasattr(subject, "end"):
                subject.end()

    def _isolated(self, subject: Subject) -> Any:
        from flashcore_ci.worker.isolated_subject import IsolatedSubject

        file_reads.watch(self._job.root)  # before the definition is imported, which may not read the candidate
        return IsolatedSubject(self._job, subject, load(subject))

    def _trusted(self, subject: Subject) -> Any:
        module = load(subject)
        if subject.library is not None or hasattr(module, "load"):  # without a library there may be nothing to load
            module.load(subject.library)
        return connection.of_rank(self._job, module) if "rank" in self._job.options else module


def last_line(error: BaseException) -> str:
    """Return an exception in at most 300 characters."""
    text = " ".join(str(error).split("\n", maxsplit=1)[0].split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def location_in(path: Path) -> str:
    """Return file and line of the handled exception, or ""."""
    frames = traceback.walk_tb(sys.exc_info()[2])
    lines = [line for frame, line in frames if Path(frame.f_code.co_filename) == path]
    return f"{path.name}:{lines[-1]}: " if lines else ""
