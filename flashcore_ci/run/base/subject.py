"""Ask the base's question again: judge head's kernel with the base's subject file.

A change of ``inputs``, ``reference`` or ``problem`` could hide a wrong kernel. Where the tokens of a subject's files differ, head's
files with the base's subject files are a second checkout. It is built, measured and judged by the base's suite.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashcore_ci.adapters import git
from flashcore_ci.collect.describe import describe
from flashcore_ci.collect.session import Session
from flashcore_ci.judge.bar import changed_subjects, judge_bar, mark_as_base_subject
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.judge.references import References
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError, UsageError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Suite
from flashcore_ci.model.verdict import StalePolicy, Verdict
from flashcore_ci.plan.planner import plan_again
from flashcore_ci.run import host, references
from flashcore_ci.run.bar import subject_files
from flashcore_ci.run.base.bar import ComparedBar
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.build import Builds, compile_subjects
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.suite.loader import load

ARTIFACTS = "artifacts/base-subject"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondJudgement:
    """Head's kernels with the base's subject files in ``root``. ``problem`` says why they could not be prepared."""

    subjects: tuple[str, ...]
    suite: Suite | None = None
    plan: Plan | None = None
    builds: Builds = ()
    root: Path = Path()
    libraries: Path = Path()
    references: References = field(default_factory=References)
    problem: str = ""

    def session(self, head: Session) -> Session:
        """Return head's session with the base's subject files."""
        if self.plan is None:
            raise ValueError("nothing was prepared")
        logs = head.scratch / "base-subject"
        logs.mkdir()
        files = replace(head, root=self.root, libraries=self.libraries, scratch=logs, artifacts=ARTIFACTS)
        return replace(files, plan=self.plan, builds=self.builds)


@contextlib.contextmanager
def prepare_again(compared: ComparedBar | None, request: Request, progress: Progress) -> Iterator[SecondJudgement | None]:
    """Prepare the second judgement of changed subjects, unless the whole difference is accepted."""
    names = changed_subjects(compared.difference) if compared is not None and not compared.is_accepted else ()
    if not names or request.base is None:
        yield None
        return
    progress(f"preparing the base's subject files: {', '.join(names)}")
    with host.scratch_folder() as scratch:
        try:
            prepared = _prepare(names, request.base, request, progress, scratch)
        except (SuiteError, CannotCollectError, EvidenceError, UsageError, OSError) as error:
            lines = str(error).splitlines()
            prepared = SecondJudgement(subjects=names, problem=lines[0] if lines else type(error).__name__)
        yield prepared


def merge(first: Evidence, second: Evidence) -> Evidence:
    """Add the second judgement's observations. Their digest of the subject tells them apart."""
    return replace(first, observations=(*first.observations, *second.observations))


def bar_verdicts(
    compared: ComparedBar | None,
    again: SecondJudgement | None,
    sources: tuple[Source, ...],
    request: Request,
    *,
    as_of: str,
    tool: str,
) -> tuple[Verdict, ...]:
    """Judge the bar, and head's kernels with the base's subject files."""
    if compared is None:
        return ()
    problem = again.problem if again is not None else ""
    done = again.subjects if again is not None and again.plan is not None else ()
    bar = judge_bar(compared.difference, compared.acceptances, origin=compared.origin, judged_again=done, problem=problem)
    if again is None or again.plan is None or again.suite is None:
        return bar
    report = judge(
        again.plan,
        again.builds,
        sources,
        waivers=again.suite.waivers,
        as_of=as_of,
        stale=StalePolicy(request.stale),
        tool=tool,
        references=again.references,
    )
    return (*bar, *map(mark_as_base_subject, report.verdicts))


def _prepare(names: tuple[str, ...], commit: str, request: Request, progress: Progress, scratch: Path) -> SecondJudgement:
    base = scratch / "base"
    git.export(request.repository, commit, into=base, logs=scratch)
    suite = load(base / request.suite, root=base)
    part = _only(suite, names)
    known = {subject.name for subject in part.subjects}
    if known != set(names):
        raise SuiteError((f"the base has no subject {', '.join(sorted(set(names) - known))}",))
    files = _files(describe(part, root=base, python=request.settings.python, scratch=scratch / "describe-base"))
    head = git.snapshot(request.root, logs=scratch)
    root = check_out(head, request, scratch, other_files=files, other=base)
    if any((root / name).read_bytes() != (base / name).read_bytes() for name in files):
        raise CannotCollectError(f"{root} was altered", fix="remove this folder")
    descriptions = describe(part, root=root, python=request.settings.python, scratch=scratch / "describe")
    builds = compile_subjects(
        descriptions, request, progress, root=root, out=scratch / "libraries", side=" with the base's subject"
    )
    return SecondJudgement(
        subjects=names,
        suite=suite,
        plan=plan_again(part, descriptions),
        builds=builds,
        root=root,
        libraries=scratch / "libraries",
        references=references.of(base / request.suite),
    )


def _only(suite: Suite, names: tuple[str, ...]) -> Suite:
    subjects = tuple(subject for subject in suite.subjects if subject.name in names)
    return replace(suite, subjects=subjects, workloads=tuple(w for w in suite.workloads if w.subject in names))


def _files(descriptions: tuple[Description, ...]) -> tuple[str, ...]:
    return tuple(sorted({file for description in descriptions for file in subject_files(description)}))
