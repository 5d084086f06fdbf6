"""Ask a worker to describe the subjects of a suite, without GPU or torch."""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from flashcore_ci.bounded.values import shorten
from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.model import errors, options
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, InterruptedRunError, SuiteError
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec, Problem, required_keys
from flashcore_ci.model.suite import SubjectRef, Suite
from flashcore_ci.store.codec import decode

SECONDS = 60.0
MAX_PROBLEMS = 100


def describe(suite: Suite, *, root: Path, python: Path, scratch: Path) -> tuple[Description, ...]:
    """Return the subjects' descriptions in order. SuiteError lists all problems."""
    subjects = tuple(
        {"name": subject.name, "file": str(root / subject.file), "library": None, "candidate": ()} for subject in suite.subjects
    )
    result = child.run(
        JobSpec(
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
    if result.failure is not None and result.in_flight is None:
        if result.failure.code is Code.INTERRUPTED:
            raise InterruptedRunError(result.failure.message)
        raise CannotCollectError(f"the worker cannot describe the subjects: {result.failure.message}", fix="flashcore-ci doctor")
    if result.failure is not None and any(f"[Errno {number}]" in result.failure.message for number in errors.WRITE_REFUSED):
        raise CannotCollectError(f"the worker cannot write its result: {result.failure.message}", fix="make room on the disk")
    problems: list[str] = []
    descriptions = []
    for subject in suite.subjects:
        outcome = result.outcomes.get(subject.name)
        if outcome is None:
            failure = "" if result.failure is None else f": {result.failure.message}"
            problems.append(f"{subject.file}: the subject ended the process that runs it{failure}")
            continue
        named = outcome.get("problems", [])
        prefix = f"{Path(subject.file).name}:"  # the worker knows the line, and not the path in the checkout
        placed = (f":{each.removeprefix(prefix)}" if each.startswith(prefix) else f": {each}" for each in named[:MAX_PROBLEMS])
        problems += [shorten(f"{subject.file}{problem}") for problem in placed]
        if not named:
            descriptions += _description(subject, outcome.get("description"), suite, problems)
    if problems:
        raise SuiteError(tuple(problems), fix="correct the subject, then run `flashcore-ci plan`")
    return tuple(descriptions)


def find_absent_files(descriptions: tuple[Description, ...], root: Path) -> list[str]:
    """List the files of builds that are not in the checkout."""
    found = []
    for description in descriptions:
        build = description.build
        named = [("entries", entry.source) for entry in build.entries] if build else []
        for key in ("launchers", "includes", "binding") if build else ():
            named += [(key, file) for file in getattr(build, key)]
        for key, file in dict.fromkeys(named):
            if "\0" not in file and not (root / file).exists():
                near = [path.relative_to(root).as_posix() for path in (root / file).parent.glob(f"*{Path(file).suffix}")]
                message = f"build(): {key}: {file}: there is no such file{_meant(file, near)}"
                found.append(shorten(f"{description.file}: {message}"))
    return found


def _wrong_keys(given: dict[str, Any]) -> list[str]:
    """Compare the keys of build() and problem() with those that they need."""
    found = []
    build = given.get("build")
    records: list[tuple[str, Any, type[Any], tuple[str, ...]]] = (
        [("build()", build, BuildSpec, ())] if isinstance(build, dict) else []
    )
    entries = build.get("entries") if isinstance(build, dict) else None
    records += [("build(): entries", entry, EntrySpec, ()) for entry in (entries if isinstance(entries, list) else ())]
    rows = given.get("problems")
    records += [("problem()", row, Problem, ("workload",)) for row in (rows if isinstance(rows, list) else ())]
    for where, record, kind, ours in records:
        known = [field.name for field in fields(kind) if field.name not in ours]
        needed = [name for name in required_keys(kind) if name in known]
        keys = [key for key in record if key not in ours] if isinstance(record, dict) else known
        found += [f'{where}: unknown key "{key}"{_meant(key, known)}' for key in keys if key not in known]
        found += [f'{where}: the key "{key}" is missing' for key in needed if key not in keys]
    return list(dict.fromkeys(found))


def _meant(word: str, words: list[str]) -> str:
    close = difflib.get_close_matches(word, words, n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _description(subject: SubjectRef, given: Any, suite: Suite, problems: list[str]) -> list[Description]:
    if not isinstance(given, dict):
        problems.append(f"{subject.file}: the worker wrote no description")
        return []
    if "build" in given and given["build"] is not None and not isinstance(given["build"], dict):
        problems.append(f"{subject.file}: build() returns {type(given['build']).__name__}: return a dict, or None")
        return []
    given = {**given, "build": _with_defaults(given.get("build"))}
    if wrong := _wrong_keys(given):
        problems += [shorten(f"{subject.file}: {line}") for line in wrong[:MAX_PROBLEMS]]
        return []
    try:
        record = {**given, "subject": subject.name, "file": subject.file, "build": _with_options(given["build"], suite)}
        record |= {"trust": subject.trust, "candidate": subject.candidate}
        data = json.dumps(record, allow_nan=False).encode()
        description = decode(Description, data, where=subject.file)
    except OptionsError as error:
        problems.append(f"{subject.file}: build(): {error}")
        return []
    except (EvidenceError, ValueError) as error:
        problems.append(str(error))
        return []
    if description.build is not None:
        known = {entry.symbol for entry in description.build.entries}
        launched = [(problem.workload, symbol) for problem in description.problems for symbol in problem.entries]
        mistakes = [(at, f"launches {symbol}, which build() does not name") for at, symbol in launched if symbol not in known]
        unbound = "launches no entry function: no machine code would be bound to its evidence"
        mistakes += [(problem.workload, unbound) for problem in description.problems if not problem.entries]
        problems += [f"{subject.file}: {mistake}" for mistake in errors.group_mistakes(mistakes)]
    return [description]


class OptionsError(Exception):
    """The compile options are wrong, or do not suit the suite's device."""


def _with_options(build: Any, suite: Suite) -> Any:
    """Add the options in full: those of ``build()``, or else the suite's, for the suite's device."""
    if not isinstance(build, dict):
        return build
    given = build.get("compile", {})
    if not isinstance(given, dict) or (wrong := list(options.mistakes(given))):
        raise OptionsError("; ".join(["compile: it must be a table"] if not isinstance(given, dict) else wrong))
    try:
        chosen = options.for_device(options.read(given) if "compile" in build else suite.build, suite.ridge.device)
    except ValueError as error:
        raise OptionsError(str(error)) from None
    return {**build, "compile": asdict(chosen)}


def _with_defaults(build: Any) -> Any:
    if not isinstance(build, dict) or not isinstance(build.get("entries"), list):
        return build
    optional: dict[str, Any] = {"requires": [], "max_waits_per_hgmma": None, "loads_bulk_copies": False}
    return {**build, "entries": [{**optional, **entry} if isinstance(entry, dict) else entry for entry in build["entries"]]}
