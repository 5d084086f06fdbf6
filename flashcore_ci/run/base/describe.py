"""Describe the base: its own subjects, then head's subjects in its checkout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashcore_ci.collect.describe import describe
from flashcore_ci.collect.isolation import run_together_then_alone
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.subject import Description, Problem
from flashcore_ci.model.suite import SubjectRef, Suite, Workload

MAX_WORKERS = 8


Workloads = tuple[Workload, ...]
Descriptions = tuple[Description, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectAnswer:
    """A description, and why some workloads cannot run."""

    description: Description | None = None
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseDescriber:
    """Asks subjects in the base's checkout."""

    checkout: Path
    python: Path
    scratch: Path

    def describe_base_subjects(self, suite: Suite, workloads: tuple[Workload, ...]) -> dict[str, SubjectAnswer]:
        """Ask the base's own subject files, by subject."""
        return {
            subject.name: self._describe(suite, subject, of_subject, self.checkout)
            for subject in suite.subjects
            if (of_subject := _workloads_of(subject, workloads)) and (self.checkout / subject.file).is_file()
        }

    def describe_both(
        self, suite: Suite, workloads: Workloads, *, base_answers: Mapping[str, SubjectAnswer], root: Path
    ) -> tuple[Descriptions, dict[str, str]]:
        """Describe what the base can run, and why it cannot run the rest. ``root`` has head's subject files."""
        descriptions: list[Description] = []
        reasons: dict[str, str] = {}
        for subject in suite.subjects:
            of_subject = _workloads_of(subject, workloads)
            if of_subject:
                answer = self._describe_both(suite, subject, of_subject, base_answers.get(subject.name), root)
                descriptions += [answer.description] if answer.description is not None else []
                reasons |= answer.reasons
        return tuple(descriptions), reasons

    def _describe_both(
        self, suite: Suite, subject: SubjectRef, workloads: Workloads, base: SubjectAnswer | None, root: Path
    ) -> SubjectAnswer:
        """Ask head's subject about what the base's does not know."""
        base_description = base.description if base is not None else None
        unknown = tuple(workload for workload in workloads if base is None or workload.id in base.reasons)
        if not unknown:
            return SubjectAnswer(description=base_description)
        head = self._describe(suite, subject, unknown, root)
        if base_description is None or head.description is None:
            return SubjectAnswer(description=base_description or head.description, reasons=head.reasons)
        build = base_description.build
        reasons = dict(head.reasons)
        if build is not None:
            built = {entry.symbol for entry in build.entries}
            absent = {problem.workload: _missing_entry(problem, built) for problem in head.description.problems}
            reasons |= {name: why for name, why in absent.items() if why}
        problems = tuple(problem for problem in head.description.problems if problem.workload not in reasons)
        description = replace(base_description, problems=(*base_description.problems, *problems))
        return SubjectAnswer(description=description, reasons=reasons)

    def _describe(self, suite: Suite, subject: SubjectRef, workloads: tuple[Workload, ...], root: Path) -> SubjectAnswer:
        """Ask about all together. On failure, ask one by one."""
        together, alone = run_together_then_alone(
            workloads,
            together=lambda part: dict.fromkeys((workload.id for workload in part), self._ask(suite, subject, part, root)),
            again=lambda answers: tuple(workload for workload in workloads if isinstance(answers[workload.id], str)),
            alone=lambda workload: self._ask(suite, subject, (workload,), root),
            at_once=MAX_WORKERS,
        )
        answers = together | alone
        reasons = {name: why for name, why in answers.items() if isinstance(why, str)}
        descriptions = [answer for answer in answers.values() if not isinstance(answer, str)]
        if not alone:
            return SubjectAnswer(description=descriptions[0] if descriptions else None, reasons=reasons)
        problems = tuple(problem for description in descriptions for problem in description.problems)
        description = replace(descriptions[0], problems=problems) if descriptions else None
        return SubjectAnswer(description=description, reasons=reasons)

    def _ask(self, suite: Suite, subject: SubjectRef, workloads: tuple[Workload, ...], root: Path) -> Description | str:
        part = replace(suite, subjects=(subject,), workloads=workloads)
        try:
            (description,) = describe(part, root=root, python=self.python, scratch=self.scratch)
        except SuiteError as error:
            return error.problems[0]
        return description


def _workloads_of(subject: SubjectRef, workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
    return tuple(workload for workload in workloads if workload.subject == subject.name)


def _missing_entry(problem: Problem, built: set[str]) -> str:
    missing = sorted(set(problem.entries) - built)
    return f"workload {problem.workload} launches {missing[0]}, which the base does not build" if missing else ""
