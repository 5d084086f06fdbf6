"""Ask the base's question again: judge head's kernel with the base's subject file.

A change of ``inputs``, ``reference`` or ``problem`` could hide a wrong kernel. Where the tokens of a subject's files differ, head's
files with the base's subject files are a second checkout. It is built, measured and judged by the base's suite.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashcore_ci.adapters import git, git_export
from flashcore_ci.collect.collect import collect
from flashcore_ci.collect.comparison import Base
from flashcore_ci.collect.describe import describe
from flashcore_ci.collect.session import Session
from flashcore_ci.judge.bar import changed_subjects, judge_bar, mark_as_base_subject
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.judge.references import References
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError, UsageError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Suite
from flashcore_ci.model.verdict import StalePolicy, Verdict
from flashcore_ci.plan.planner import drop_comparisons, plan_again
from flashcore_ci.run import host, references
from flashcore_ci.run.bar import subject_files
from flashcore_ci.run.base import prepare
from flashcore_ci.run.base.bar import ComparedBar
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.base.describe import Descriptions
from flashcore_ci.run.build import Builds, compile_subjects
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.suite.loader import load

FOLDER = "base-subject"


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
    base: Base | None = None
    problem: str = ""

    @property
    def judged(self) -> tuple[str, ...]:
        """The subjects with machine code at build time."""
        described = self.plan.descriptions if self.plan is not None else ()
        return tuple(description.subject for description in described if description.build is not None)

    def measure(self, head: Session, evidence: Evidence, request: Request) -> Evidence:
        """Measure here with the base's subject files, and add the observations. Their digest of the subject tells them apart."""
        if self.plan is None or self.base is None or not self.plan.checks:
            return evidence
        head.progress("judging the kernels with the base's subject files")
        logs = head.scratch / FOLDER
        logs.mkdir()
        files = replace(head, root=self.root, libraries=self.libraries, scratch=logs, artifacts=f"{head.artifacts}/{FOLDER}")
        session = replace(files, plan=drop_comparisons(self.plan, self.base.cannot), builds=self.builds)
        second = collect(session, (self.base, prepare.interim_looks(self.base, self.plan, self.builds, request)))
        return _add(evidence, second)


def _add(first: Evidence, second: Evidence) -> Evidence:
    """Add what has another identity. Where only a data file changed, both sides are the same measurement."""
    known = {(seen.kind, seen.target, seen.identity, seen.base) for seen in first.observations}
    new = (seen for seen in second.observations if (seen.kind, seen.target, seen.identity, seen.base) not in known)
    return replace(first, observations=(*first.observations, *new))


@contextlib.contextmanager
def prepare_again(compared: ComparedBar | None, request: Request, progress: Progress) -> Iterator[SecondJudgement | None]:
    """Prepare the second judgement of changed subjects, unless the whole difference is accepted."""
    names = changed_subjects(compared.difference) if compared is not None and not compared.is_accepted else ()
    if not names or request.base is None:
        yield None
        return
    progress(f"preparing the base's subject files: {', '.join(names)}")
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(host.scratch_folder())
        try:
            suite, prepared = _prepare(names, request.base, request, progress, scratch)
            if prepared.plan is not None:
                there = replace(request, checkout=prepared.root, base_build=None)
                base = prepare.prepare_base(request.base, suite, prepared.plan, there, progress)
                prepared = replace(prepared, base=stack.enter_context(base))
        except (SuiteError, CannotCollectError, EvidenceError, UsageError, OSError) as error:
            lines = str(error).splitlines()
            prepared = SecondJudgement(subjects=names, problem=lines[0] if lines else type(error).__name__)
        yield prepared


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
    done = again.judged if again is not None else ()
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
        base=again.base.identities if again.base is not None else {},
        no_base=again.base.cannot if again.base is not None else {},
    )
    return (*bar, *map(mark_as_base_subject, report.verdicts))


def _prepare(
    names: tuple[str, ...], commit: str, request: Request, progress: Progress, scratch: Path
) -> tuple[Suite, SecondJudgement]:
    base = scratch / "base"
    git_export.export(request.repository, commit, into=base, logs=scratch)
    suite = load(base / request.suite, root=base)
    part = _only(suite, names)
    known = {subject.name for subject in part.subjects}
    if known != set(names):
        raise SuiteError((f"the base has no subject {', '.join(sorted(set(names) - known))}",))
    before = describe(part, root=base, python=request.settings.python, scratch=scratch / "describe-base")
    before = tuple(description for description in before if description.build is not None)  # any other is its kernel too
    if not before:
        return part, SecondJudgement(subjects=names)
    part = _only(part, tuple(description.subject for description in before))
    files = tuple(sorted({file for description in before for file in subject_files(description, base)}))
    head = git.snapshot(request.root, logs=scratch)
    root = check_out(head, request, scratch, other_files=files, other=base)
    if any((root / name).read_bytes() != (base / name).read_bytes() for name in files):
        raise CannotCollectError(f"{root} was altered", fix="remove this folder")
    options = load(request.root / request.suite, root=request.root).build
    descriptions = describe(replace(part, build=options), root=root, python=request.settings.python, scratch=scratch / "describe")
    if lost := less_work(before, descriptions):
        raise SuiteError((f"the base's subject file asks less of {lost} here: it reads a file that head changed",))
    builds = compile_subjects(
        descriptions, request, progress, root=root, out=scratch / "libraries", side=" with the base's subject"
    )
    return part, SecondJudgement(
        subjects=names,
        suite=suite,
        plan=plan_again(part, descriptions),
        builds=builds,
        root=root,
        libraries=scratch / "libraries",
        references=references.of(base / request.suite),
    )


def less_work(before: Descriptions, here: Descriptions) -> str:
    """Name a workload that is another problem than in the base, or launches fewer entry functions. Names may differ."""
    asked = {problem.workload: problem for description in here for problem in description.problems}
    for old in (problem for description in before for problem in description.problems):
        new = asked.get(old.workload)
        if new is None or (new.flops, new.bytes) != (old.flops, old.bytes) or len(set(new.entries)) < len(set(old.entries)):
            return old.workload
    return ""


def _only(suite: Suite, names: tuple[str, ...]) -> Suite:
    subjects = tuple(subject for subject in suite.subjects if subject.name in names)
    return replace(suite, subjects=subjects, workloads=tuple(w for w in suite.workloads if w.subject in names))
