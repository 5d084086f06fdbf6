"""Decide without a GPU whether a change needs one: files of git first, then a build, and nothing of the change is run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.adapters import clock, git
from flashcore_ci.judge import summary
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.decision import Decision
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.errors import CannotCollectError, FlashcoreError, InterruptedRunError, SuiteError, UnmetError
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured as Reading
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Kind, Rule, Scope, Severity, Suite
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Report, StalePolicy, Verdict
from flashcore_ci.plan import planner
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import github, profiler_reports, references, reports
from flashcore_ci.run.base.measured import (
    SHOWN,
    Measured,
    NeededError,
    code_change,
    compare_commits,
    moved_code,
    read_measured,
    refuse_other_host_code,
)
from flashcore_ci.run.build import Builds, compile_subjects, compiler_evidence
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.rederive import rederived
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.run.required_check import SUCCESS, demanded_results, unmet_jobs
from flashcore_ci.store.claim import DECISION, claim_folder, refuse_input
from flashcore_ci.store.codec import encode
from flashcore_ci.store.files import write_atomically
from flashcore_ci.suite.loader import load

GATE = "needs-gpu"
SKIPPED = "skipped"


def needs_gpu(
    evidence: Path,
    request: Request,
    progress: Progress,
    *,
    base: str,
    statement: Path,
    needs: str | None = None,
    demand: str | None = None,
) -> tuple[Decision, Report]:
    """Compare HEAD with the commit that the base's ``evidence`` measured. Write the decision and the reports to ``request.out``.

    Whatever cannot be read or is not known needs a GPU. ``needs`` and ``demand`` are as in ``require``, but jobs that are not
    demanded may be skipped. UnmetError when one failed.
    """
    refuse_input(request.out, evidence)
    with claim_folder(request.out), scratch_folder() as scratch:
        reports.clear(request.out)
        (request.out / DECISION).unlink(missing_ok=True)
        _refuse_failed_jobs(needs, demand)
        found: Measured | None = None
        report: Report | None = None
        try:
            found = read_measured(evidence, statement, scratch)
            report = _decide(found, base, request, progress, given=(evidence, statement))
            reason = f"the code of this commit was measured by {found.measurement.describe()}"
            decision = Decision(needed=False, code=Code.SAME_CODE, reason=reason, measurement=found.measurement)
        except InterruptedRunError:
            raise
        except NeededError as error:
            decision = Decision(needed=True, code=error.code, reason=str(error), only=error.only)
        except FlashcoreError as error:
            decision = Decision(needed=True, code=Code.BASE_UNMEASURED, reason=reports.headline(error))
        decision = replace(decision, measurement=found.measurement if found else None)
        report = _report(decision, report, request)
        reports.write(request.out, report, Dossier())
        github.annotate(report, Dossier(), request.environ)
        write_atomically(request.out / DECISION, encode(decision))
        return decision, report


def _refuse_failed_jobs(needs: str | None, demand: str | None) -> None:
    results, demanded = demanded_results(needs, demand)
    counted = tuple((name, result) for name, result in results if name in demanded or result != SKIPPED)
    if problems := unmet_jobs(counted, demanded):
        raise UnmetError("\n".join(problems), fix=f"let every job end in {SUCCESS}, then run this one again")


def _decide(found: Measured, revision: str, request: Request, progress: Progress, *, given: tuple[Path, ...]) -> Report:
    """Return the green report. NeededError otherwise. Files that were ``given`` may be in the checkout."""
    progress("comparing files with those of the measurement")
    here = git.checkout(request.root, logs=found.scratch, outputs=tuple(request.root / path for path in (request.out, *given)))
    if not here.commit or here.dirty:
        why = f"this is no clean checkout: {'; '.join(here.changes[:SHOWN]) or 'it has no commit'}"
        raise NeededError(Code.UNKNOWN_CHANGE, why)
    base = git.fork_point(request.root, revision, logs=found.scratch)
    request = replace(request, commit=here.commit)
    paths = compare_commits(found, base, here.commit, request)
    suite, plan = _plan(found, request)
    if not paths:
        return _judged(found, suite, plan, found.run.evidence.builds, request)
    change, moved = code_change(found, paths, here.commit, request), moved_code(found, paths)
    if change is None and not moved:
        return _judged(found, suite, plan, found.run.evidence.builds, request)
    what = f"{change.path} {change.why}" if change is not None else f"{moved} has its code in other lines"
    try:
        return _built(moved, found, (suite, plan), request, progress)
    except (CannotCollectError, SuiteError) as error:
        raise NeededError(Code.CODE_CHANGED, f"{what}, and cannot be built here: {error}") from None


def _built(moved: str, found: Measured, planned: tuple[Suite, Plan], request: Request, progress: Progress) -> Report:
    """Judge by a build of this commit. If code ``moved``, the measured one is built too, unless all must be measured anyway."""
    suite, plan = planned
    builds, narrowed = _build(found.head, found, plan, request, progress), None
    try:
        report = _judged(found, suite, plan, builds, request)
    except NeededError as error:
        narrowed = error
        if not error.only:
            raise
    if moved:
        refuse_other_host_code(moved, _build(found.root, found, plan, request, progress), builds)
    if narrowed is not None:
        raise narrowed
    return report


def _build(root: Path, found: Measured, plan: Plan, request: Request, progress: Progress) -> Builds:
    return compile_subjects(plan.descriptions, request, progress, root=root, out=found.scratch / f"build-{root.name}")


def _plan(found: Measured, request: Request) -> tuple[Suite, Plan]:
    """Plan the measured suite again, with the descriptions in the evidence: no subject is run."""
    run = found.run
    if run.plan.suite_file != str(request.suite):
        raise NeededError(Code.BASE_UNMEASURED, f"the base's evidence is of {run.plan.suite_file}")
    suite = load(found.root / request.suite, root=found.root)
    if suite.accepts is None:
        raise NeededError(Code.BASE_UNMEASURED, f"{request.suite} has no [accepts]: nothing says how old evidence may be")
    described = {one.subject: one.file for one in run.plan.descriptions}
    if described != {subject.name: subject.file for subject in suite.subjects}:
        raise NeededError(Code.BASE_UNMEASURED, "the base's evidence describes other subjects than its suite")
    plan = planner.make_plan(suite, run.plan.descriptions, compared=recorded.has_comparisons(run))
    return suite, planner.drop_comparisons(plan, recorded.without_base(run)[1])


def _judged(found: Measured, suite: Suite, plan: Plan, builds: Builds, request: Request) -> Report:
    """Judge the base's evidence for these builds, as of now. NeededError unless every check passes."""
    with profiler_reports.reading(found.run.files) as profiles:
        source = rederived(found.source, plan, profiles)
    static = compiler_evidence(plan, builds, found.run.evidence.provenance)
    report = judge(
        plan,
        builds,
        (Source(origin=source.origin, evidence=static), source),
        waivers=suite.waivers,
        as_of=clock.now(),
        stale=StalePolicy.BLOCK,
        tool=__version__,
        references=references.of(found.root / request.suite),
        max_age_days=suite.accepts.max_age_days if suite.accepts else 0.0,
    )
    report = replace(report, judged_commit=request.commit or "")
    if report.outcome is Outcome.PASS:
        return report
    raise _not_answered(report, plan)


def _not_answered(report: Report, plan: Plan) -> NeededError:
    """Say which workloads the base's evidence does not answer for."""
    blocking = [verdict for verdict in report.verdicts if verdict.blocks]
    touched = {verdict.target for verdict in blocking if verdict.reason.code is Code.STALE_EVIDENCE}
    first = next((verdict for verdict in blocking if verdict.target not in touched), None)
    if first is not None:
        why = f"{first.gate} of {first.target} is {first.reason.code} by the base's evidence: {first.reason.message}"
        return NeededError(Code.BASE_UNMEASURED, why)
    only = tuple(workload.id for workload in plan.workloads if workload.id in touched)
    why = f"{len(only)} of {len(plan.workloads)} workloads run other code"
    return NeededError(Code.CODE_CHANGED, why, only if len(only) < len(plan.workloads) else ())


def _report(decision: Decision, judged: Report | None, request: Request) -> Report:
    """Put the decision before the verdicts that it rests on."""
    verdict = _verdict(decision, str(request.suite))
    if judged is not None:
        headline = f"PASS: no GPU job is needed: {decision.reason}"
        return replace(judged, verdicts=(verdict, *judged.verdicts), headline=headline)
    return Report(
        suite=str(request.suite),
        tool=__version__,
        as_of=clock.now(),
        outcome=Outcome.INCONCLUSIVE,
        exit_code=summary.EXIT_CODE[Outcome.INCONCLUSIVE],
        headline=f"INCONCLUSIVE: a GPU job is needed: {decision.reason}",
        verdicts=(verdict,),
        excluded=(),
        waivers=(),
        builds=(),
        provenance=None,
        notes=(f"only these workloads: {', '.join(decision.only)}",) if decision.only else (),
    )


def _verdict(decision: Decision, suite: str) -> Verdict:
    detail = decision.measurement.describe() if decision.measurement else ""
    missing = Missing(code=decision.code, message=decision.reason)
    return Verdict(
        gate=GATE,
        title="Does a measurement of the base answer for this commit?",
        evidence=Kind.BAR,
        target=suite,
        scope=Scope.SUBJECT,
        subject="suite",
        outcome=Outcome.INCONCLUSIVE if decision.needed else Outcome.PASS,
        severity=Severity.BLOCKING,
        blocks=decision.needed,
        deferred=False,
        reason=Reason(code=decision.code, message=decision.reason),
        reading=missing if decision.needed else Reading(value=0.0, unit="count"),
        rule=Rule.EQUAL,
        limit=0.0,
        unit="count",
        origin=Origin(kind="recorded", detail=detail) if detail else Origin(kind="none"),
        next_step=NEXT_STEP.get(decision.code, ""),
        why="A GPU is needed only where the code that workloads run was not measured.",
    )
