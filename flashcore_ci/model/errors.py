"""Every error that is not a verdict, with its exit code. ``docs/exit-codes.md`` is generated from here.

A kernel that does not compile, hangs, is wrong or slow is evidence and becomes a verdict; none of these classes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from enum import IntEnum

WRITE_REFUSED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""What a disk says that takes no more."""


class ExitCode(IntEnum):
    """The process's exit status; the meaning of each is its docstring line in ``MEANING``."""

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
    """An error with an exit code. ``str(error)`` says what is wrong and where; ``fix`` says what to do."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class UsageError(FlashcoreError):
    """The command line asks for something impossible."""

    exit_code = ExitCode.USAGE


class SuiteError(FlashcoreError):
    """The suite is invalid; ``problems`` lists every one, each naming file and key."""

    exit_code = ExitCode.INVALID_SUITE

    def __init__(self, problems: tuple[str, ...], *, fix: str = "") -> None:
        super().__init__("\n".join(problems), fix=fix)
        self.problems = problems


class CannotCollectError(FlashcoreError):
    """This machine cannot do what was asked: no tool, no permission, no GPU, no room on the disk."""

    exit_code = ExitCode.CANNOT_COLLECT


class EvidenceError(FlashcoreError):
    """A run folder or bundle that cannot be read: cut, altered, of another schema, or not a run at all."""

    exit_code = ExitCode.CANNOT_COLLECT


class UnmetError(FlashcoreError):
    """A condition of the required check does not hold: a job did not succeed, or the evidence is of another commit."""

    exit_code = ExitCode.INCONCLUSIVE


class InterruptedRunError(FlashcoreError):
    """SIGINT or SIGTERM reached the tool; what was collected until then is kept and judged."""

    exit_code = ExitCode.INCONCLUSIVE


def as_flashcore_error(error: BaseException) -> BaseException:
    """``error`` itself, or the CannotCollectError that it amounts to: a disk that takes no more is no bug of the tool."""
    if isinstance(error, OSError) and error.errno in WRITE_REFUSED:
        file = error.filename or "a file"
        return CannotCollectError(f"cannot write {file}: {error.strerror}", fix="make room, or give --out another folder")
    return error


def group_mistakes(mistakes: Iterable[tuple[str, str]]) -> list[str]:
    """Sentences for (workload, what is wrong): the same mistake of many workloads is one line, which names the first of them."""
    workloads: dict[str, list[str]] = {}
    for workload, mistake in mistakes:
        workloads.setdefault(mistake, []).append(workload)
    return [
        f"workload {first}{f' and {len(others)} more' if others else ''}: {mistake}"
        for mistake, (first, *others) in workloads.items()
    ]
