"""What a base says of the workloads that head asks: its own subject's word first, then head's in the base's checkout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.collect.describe import describe
from flashcore_ci.collect.isolation import run_together_then_alone
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.subject import Description, Problem
from flashcore_ci.model.suite import SubjectRef, Suite, Workload

AT_ONCE = 8
Said = tuple[Description | None, dict[str, str]]
"""What a subject said of those workloads that can be; and of the others why they cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """``checkout`` is the base's as it was committed; ``scratch`` is for the workers."""

    checkout: Path
    python: Path
    scratch: Path

    def own(self, suite: Suite, wanted: tuple[Workload, ...]) -> dict[str, Said]:
        """What each of the base's own subjects says of its workloads in ``wanted``, by the subject's name."""
        return {
            subject.name: self._asked(suite, subject, workloads, self.checkout)
            for subject in suite.subjects
            if (workloads := _of(subject, wanted)) and (self.checkout / subject.file).is_file()
        }

    def on(
        self, suite: Suite, wanted: tuple[Workload, ...], *, own: Mapping[str, Said], heads: Path
    ) -> tuple[tuple[Description, ...], dict[str, str]]:
        """A description for each subject that can run any of ``wanted``; and which of these the base cannot run, and why.

        ``own`` is what the base's own subjects say, ``heads`` is the checkout that both sides' subjects run in.
        """
        descriptions: list[Description] = []
        cannot: dict[str, str] = {}
        for subject in suite.subjects:
            workloads = _of(subject, wanted)
            said, why = self._both(suite, subject, workloads, own.get(subject.name), heads) if workloads else (None, {})
            descriptions += [said] if said is not None else []
            cannot |= why
        return tuple(descriptions), cannot

    def _both(self, suite: Suite, subject: SubjectRef, workloads: tuple[Workload, ...], said: Said | None, heads: Path) -> Said:
        own, unknown = said or (None, None)
        left = tuple(workload for workload in workloads if unknown is None or workload.id in unknown)
        if not left:
            return own, {}
        theirs, cannot = self._asked(suite, subject, left, heads)
        if own is None or theirs is None:
            return own or theirs, cannot
        built = {entry.symbol for entry in own.build.entries} if own.build is not None else set()
        absent = {problem.workload: _absent(problem, built) for problem in theirs.problems if own.build is not None}
        cannot |= {name: why for name, why in absent.items() if why}
        problems = tuple(problem for problem in theirs.problems if problem.workload not in cannot)
        return replace(own, problems=(*own.problems, *problems)), cannot

    def _asked(self, suite: Suite, subject: SubjectRef, workloads: tuple[Workload, ...], root: Path) -> Said:
        """All at once; only if that fails, one by one: which of them cannot be?"""
        together, alone = run_together_then_alone(
            workloads,
            together=lambda some: dict.fromkeys((workload.id for workload in some), self._describe(suite, subject, some, root)),
            again=lambda found: tuple(workload for workload in workloads if isinstance(found[workload.id], str)),
            alone=lambda workload: self._describe(suite, subject, (workload,), root),
            at_once=AT_ONCE,
        )
        found = together | alone
        cannot = {name: one for name, one in found.items() if isinstance(one, str)}
        able = [one for one in found.values() if not isinstance(one, str)]
        if not alone:
            return (able[0] if able else None), cannot
        problems = tuple(problem for one in able for problem in one.problems)
        return (replace(able[0], problems=problems) if able else None), cannot

    def _describe(self, suite: Suite, subject: SubjectRef, workloads: tuple[Workload, ...], root: Path) -> Description | str:
        asked = replace(suite, subjects=(subject,), workloads=workloads)
        try:
            (said,) = describe(asked, root=root, python=self.python, scratch=self.scratch)
        except SuiteError as error:
            return error.problems[0]
        return said


def _of(subject: SubjectRef, wanted: tuple[Workload, ...]) -> tuple[Workload, ...]:
    return tuple(workload for workload in wanted if workload.subject == subject.name)


def _absent(problem: Problem, built: set[str]) -> str:
    lacking = sorted(set(problem.entries) - built)
    return f"workload {problem.workload} launches {lacking[0]}, which the base does not build" if lacking else ""
