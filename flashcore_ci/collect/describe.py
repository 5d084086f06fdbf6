"""Ask the subjects of a suite what they are. No GPU and no torch are needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flashcore_ci.collect import child
from flashcore_ci.collect.child import Order
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import (
    WRITE_REFUSED,
    CannotCollectError,
    EvidenceError,
    InterruptedRunError,
    SuiteError,
    group_mistakes,
)
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import SubjectRef, Suite
from flashcore_ci.store.codec import decode

SECONDS = 60.0


def describe(suite: Suite, *, root: Path, python: Path, scratch: Path) -> tuple[Description, ...]:
    """One description for each subject of the suite, in its order.

    SuiteError lists everything that subjects refuse or get wrong; CannotCollectError when the worker itself cannot run.
    """
    subjects = tuple({"name": subject.name, "file": str(root / subject.file), "library": None} for subject in suite.subjects)
    ended = child.run(
        Order(
            kind="describe",
            name="describe",
            python=python,
            root=root,
            scratch=scratch,
            seconds=SECONDS,
            subjects=subjects,
            workloads=suite.workloads,
        )
    )
    if ended.fault is not None and ended.in_flight is None:
        if ended.fault.code is Code.INTERRUPTED:
            raise InterruptedRunError(ended.fault.message)
        raise CannotCollectError(f"the subjects cannot be asked: {ended.fault.message}", fix="flashcore-ci doctor")
    if ended.fault is not None and any(f"[Errno {number}]" in ended.fault.message for number in WRITE_REFUSED):
        raise CannotCollectError(f"the subjects cannot answer: {ended.fault.message}", fix="make room on the disk")
    problems: list[str] = []
    descriptions = []
    for subject in suite.subjects:
        outcome = ended.outcomes.get(subject.name)
        if outcome is None:
            fault = "" if ended.fault is None else f": {ended.fault.message}"
            problems.append(f"{subject.file}: the subject ended the process that asked it{fault}")
            continue
        said = outcome.get("problems", [])
        problems += [f"{subject.file}: {problem}" for problem in said]
        if not said:
            descriptions += _description(subject, outcome["description"], problems)
    if problems:
        raise SuiteError(tuple(problems))
    return tuple(descriptions)


def _description(subject: SubjectRef, said: dict[str, Any], problems: list[str]) -> list[Description]:
    """The record, or nothing and what is wrong with what the subject said."""
    try:
        whole = {"subject": subject.name, "file": subject.file, **said, "build": _complete(said["build"])}
        data = json.dumps(whole, allow_nan=False).encode()
        description = decode(Description, data, where=subject.file)
    except (EvidenceError, ValueError) as error:
        problems.append(str(error))
        return []
    if description.build is not None:
        known = {entry.symbol for entry in description.build.entries}
        mistakes = [
            (problem.workload, f"launches {symbol}, which build() does not name")
            for problem in description.problems
            for symbol in problem.entries
            if symbol not in known
        ]
        mistakes += [
            (problem.workload, "launches no entry function: no machine code would be bound to its evidence")
            for problem in description.problems
            if not problem.entries
        ]
        problems += [f"{subject.file}: {mistake}" for mistake in group_mistakes(mistakes)]
    return [description]


def _complete(build: Any) -> Any:
    """The build with what an entry may leave out filled in; anything that is no build is left to the reader to refuse."""
    if not isinstance(build, dict) or not isinstance(build.get("entries"), list):
        return build
    optional: dict[str, Any] = {"requires": [], "max_waits_per_hgmma": None, "loads_bulk_copies": False}
    return {**build, "entries": [{**optional, **entry} if isinstance(entry, dict) else entry for entry in build["entries"]]}
