"""Every error that is not a verdict, with its exit code (docs/exit-codes.md)."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from enum import IntEnum

WRITE_REFUSED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Errors of a disk that is full or read-only."""


MAX_FILE_NAME = 200


class ExitCode(IntEnum):
    """The exit status of the process. ``MEANING`` explains each."""

    PASSED = 0
    BUG = 1
    USAGE = 2
    INVALID_SUITE = 3
    CANNOT_COLLECT = 4
    GATE_FAILED = 10
    INCONCLUSIVE = 11


MEANING: dict[ExitCode, str] = {
    ExitCode.PASSED: "every blocking gate passed",
    ExitCode.BUG: "a bug in the tool (the traceback is in a file)",
    ExitCode.USAGE: "wrong usage of the command line",
    ExitCode.INVALID_SUITE: "the suite is invalid, or nothing was selected",
    ExitCode.CANNOT_COLLECT: "this machine cannot collect (no tool, no permission, GPU lost)",
    ExitCode.GATE_FAILED: "a blocking gate failed",
    ExitCode.INCONCLUSIVE: "nothing failed, but a blocking gate is inconclusive",
}


class FlashcoreError(Exception):
    """An error with an exit code. ``str(error)`` is the cause, ``fix`` the remedy."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class UsageError(FlashcoreError):
    """The command line asks for something impossible."""

    exit_code = ExitCode.USAGE


class SuiteError(FlashcoreError):
    """The suite is invalid. ``problems`` lists every mistake with file and key."""

    exit_code = ExitCode.INVALID_SUITE

    def __init__(self, problems: tuple[str, ...], *, fix: str = "") -> None:
        super().__init__("\n".join(problems), fix=fix)
        self.problems = problems


class CannotCollectError(FlashcoreError):
    """This machine lacks a tool, a permission, a GPU or disk space."""

    exit_code = ExitCode.CANNOT_COLLECT


class EvidenceError(FlashcoreError):
    """A run folder or bundle that is damaged or not a run."""

    exit_code = ExitCode.CANNOT_COLLECT


class UnmetError(FlashcoreError):
    """A condition of the required check is not met."""

    exit_code = ExitCode.INCONCLUSIVE


class InterruptedRunError(FlashcoreError):
    """SIGINT or SIGTERM reached the tool. Evidence so far is kept and judged."""

    exit_code = ExitCode.INCONCLUSIVE


def as_flashcore_error(error: BaseException) -> BaseException:
    """Turn the error of a disk, a path or the memory into CannotCollectError."""
    if isinstance(error, OSError) and error.errno in WRITE_REFUSED:
        file = error.filename or "a file"
        return CannotCollectError(f"cannot write {file}: {error.strerror}", fix="make room on the disk")
    if isinstance(error, OSError) and error.filename is not None:
        file = str(error.filename)
        shown = file if len(file) <= MAX_FILE_NAME else f"{file[:MAX_FILE_NAME]}..."
        return CannotCollectError(f"cannot use {shown}: {error.strerror}", fix="check the path and its permissions")
    if isinstance(error, FileNotFoundError):  # of the system's own calls: getcwd, or no temporary folder
        fix = "change to a folder that exists, and set TMPDIR to one"
        return CannotCollectError("the working folder or the folder for temporary files is gone", fix=fix)
    if isinstance(error, MemoryError):
        return CannotCollectError("this machine has too little memory", fix="end other programs, or use a larger machine")
    return error


def group_mistakes(mistakes: Iterable[tuple[str, str]]) -> list[str]:
    """Format (workload, mistake) pairs, a line per mistake with its first workload."""
    workloads: dict[str, list[str]] = {}
    for workload, mistake in mistakes:
        workloads.setdefault(mistake, []).append(workload)
    more = {mistake: f" and {len(names) - 1} more" if len(names) > 1 else "" for mistake, names in workloads.items()}
    return [f"workload {names[0]}{more[mistake]}: {mistake}" for mistake, names in workloads.items()]
