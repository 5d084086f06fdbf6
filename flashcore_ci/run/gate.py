"""The verdict: plan, build, measure or read recordings, judge, report."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.adapters import clock, git, process
from flashcore_ci.collect.comparison import Base
from flashcore_ci.judge.judge import Source, judge, workloads_without_base
from flashcore_ci.model.errors import EvidenceError, FlashcoreError, InterruptedRunError, SuiteError, as_flashcore_error
from flashcore_ci.model.evidence import Evidence, Identity, Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Kind, Suite
from flashcore_ci.model.verdict import Origin, Outcome, Report, StalePolicy
from flashcore_ci.plan.bar import answers
from flashcore_ci.plan.planner import drop_comparisons, new_only, require_blocking
from flashcore_ci.run import dossier as dossiers
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import github, hints, host, profiler_reports, references, reports, triage
from flashcore_ci.run.base import prepare, unaffected
from flashcore_ci.run.base.anchor import required_pin
from flashcore_ci.run.base.bar import ComparedBar, compare_bar
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.base.subject import SecondJudgement, bar_verdicts, prepare_again
from flashcore_ci.run.build import Builds, build_plan, compiler_evidence
from flashcore_ci.run.measuring import able, measure_here, prepare_here
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.project import suite_option
from flashcore_ci.run.rederive import rederived
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.claim import claim_folder
from flashcore_ci.store.manifest import MANIFEST
from flashcore_ci.store.run import read_run


@dataclass(slots=True, kw_only=True)
class PartialRun:
    """What a run has so far, judged even when an error ends it."""

    suite: Suite | None = None
    plan: Plan | None = None
    builds: Builds = ()
    sources: list[Source] = field(default_factory=list)
    base: dict[str, Identity] = field(default_factory=dict)
    no_base: dict[str, str] = field(default_factory=dict)
    bar: ComparedBar | None = None
    again: SecondJudgement | None = None
    commit: Callable[[], str] = str
    narrowing: str = ""
    max_age_days: float | None = None


Measure = Callable[[Plan, Builds, Request, Progress, Base | None], Source]


def gate(request: Request, progress: Progress, *, evidence: tuple[Source, ...] = (), measure: Measure | None = None) -> Report:
    """Do the whole job. Reports are written however it ends.

    ``evidence`` replaces measuring. ``measure`` replaces measuring on one GPU, unless kernels are judged with the base's subject too.
    """
    request = without_deferral(request)
    check_suite_exists(request)
    measures = not evidence and measure is None and host.is_live(request)
    with claim_folder(request.out), host.importing(request.settings.python) if measures else contextlib.nullcontext():
        return _gate(request, progress, evidence, measure)


def without_deferral(request: Request) -> Request:
    """Block on stale evidence where there is a GPU."""
    return replace(request, stale=StalePolicy.BLOCK.value) if host.is_live(request) else request


def check_suite_exists(request: Request) -> None:
    """Raise SuiteError before earlier reports are replaced."""
    if (request.out / reports.REPORT).exists() and not (request.root / request.suite).is_file():
        load_suite(request)


def _gate(request: Request, progress: Progress, evidence: tuple[Source, ...], measure: Measure | None) -> Report:
    reports.clear(request.out)
    asked = host.meanwhile(host.provenance, request)
    run = PartialRun(commit=lambda: host.commit_in(asked))
    try:
        suite = run.suite = load_suite(request)
        if request.anchor:
            required_pin(request, suite.name)
        run.max_age_days = suite.accepts.max_age_days if evidence and suite.accepts else None
        run.bar = _compare_bar(request, progress)
        if evidence and run.bar is None:
            run.narrowing = "without --base the suite was not compared with an older one"
        plan = run.plan = make_plan(suite, request, progress)
        require_blocking(plan, measures=measure is not None or host.is_live(request))
        _require_same_answers(run.bar, plan)
        prepare_here(request, plan, measures=not evidence and measure is None)
        builds = run.builds = build_plan(plan, request, progress)
        if request.changed is not None:
            narrowed = unaffected.narrow(suite, plan, builds, base=request.changed, request=request, progress=progress)
            plan, run.narrowing = narrowed.plan, narrowed.summary
            run.plan = plan
        origin = Origin(kind="live", detail=", ".join(dict.fromkeys(build.compiler for build in builds if build.compiler)))
        run.sources.append(Source(origin=origin, evidence=compiler_evidence(plan, builds, asked())))
        with (
            prepare_again(run.bar, request, progress) as run.again,
            prepare.requested_base(suite, plan, request, progress) as base,
        ):
            if base is not None:
                run.base, run.no_base = base.identities, base.cannot
                run.plan = drop_comparisons(plan, new_only(base.cannot, base.new))
                plan = able(plan, base, base.cannot)
            same = same_code(plan, builds, base, asked(), request.settings.python) if base is not None else None
            found = _rederived(evidence, plan) if evidence else None
            if found is not None and same is not None and len(evidence) > 1:  # a GPU job left out what did not change
                found = (*found, same)
            if found is None and same is not None and request.kinds and _answers(same, plan):
                found = (same,)
            if measure is not None and run.again is None and found is None:
                found = (measure(plan, builds, request, progress, base),)
            run.sources += found or _find_evidence(plan, builds, request, progress, base, again=run.again)
        if base is not None:
            failures = workloads_without_base(plan, builds, tuple(run.sources), run.base)
            run.plan = drop_comparisons(run.plan, new_only(failures, base.new))
        progress("judging")
        report = judge_partial(run, request, as_of=clock.now())
        publish(report, run, request)
    except BaseException as error:  # noqa: BLE001 - CI needs reports whatever ended the run. The error is raised again
        return _end(error, run, request)
    return report


def same_code(plan: Plan, builds: Builds, base: Base, here: Provenance, python: Path) -> Source:
    """Observe without a GPU which workloads run the same code on both sides, by builds of this machine."""
    found = prepare.same_code(base, plan, builds, python)
    origin = Origin(kind="live", detail="both sides were built here")
    return Source(origin=origin, evidence=Evidence(provenance=here, builds=builds, observations=found))


def _answers(source: Source, plan: Plan) -> bool:
    """Tell whether the source answers every check of the plan."""
    known = {(one.kind, one.target) for one in source.evidence.observations}
    return bool(known) and all((check.gate.evidence, check.target) in known for check in plan.checks)


def _compare_bar(request: Request, progress: Progress) -> ComparedBar | None:
    """Compare the suites before head's subjects run. ``compare`` asks about speed only."""
    if request.base is None or request.kinds:
        return None
    with host.scratch_folder() as scratch:
        return compare_bar(request.base, request, progress, scratch=scratch)


def _require_same_answers(compared: ComparedBar | None, plan: Plan) -> None:
    """SuiteError if head's subjects describe themselves in another way than when the suites were compared."""
    if compared is not None and compared.difference.head not in ("", answers(plan.descriptions)):
        problem = f"{plan.suite_file}: a subject described itself in another way when the suites were compared"
        raise SuiteError((problem,), fix="let build() and problem() depend on their arguments only")


def compare(request: Request, base: str, head: str | None, progress: Progress) -> Report:
    """Compare ``head`` (None: this checkout) with ``base``. UsageError for an unknown revision."""
    request = replace(request, out=request.out.absolute(), live=True, kinds=(Kind.COMPARISON,))
    with host.scratch_folder() as logs:
        request = replace(request, base=git.commit_of(request.root, base, logs=logs))
        if head is not None:
            commit = git.commit_of(request.root, head, logs=logs)
            request = replace(request, commit=commit, checkout=check_out(commit, request, logs))
        return gate(request, progress)


def _find_evidence(
    plan: Plan, builds: Builds, request: Request, progress: Progress, base: Base | None, *, again: SecondJudgement | None
) -> tuple[Source, ...]:
    if host.is_live(request):
        return (measure_here(plan, builds, request, progress, base, again=again),)
    progress("reading the recorded runs")
    return _rederived(recorded.read_bundles(request.evidence), plan)


def _rederived(sources: Iterable[Source], plan: Plan) -> tuple[Source, ...]:
    """Compare recorded evidence with the tools' files. EvidenceError if they disagree."""
    checked = []
    for source in sources:
        with profiler_reports.reading(source.files) as profiles:
            checked.append(rederived(source, plan, profiles))
    return tuple(checked)


def judge_run(run: Path, request: Request, progress: Progress) -> Report:
    """Judge a recorded run by this suite, as of its collection. EvidenceError, and no change, without measurements."""
    check_suite_exists(request)
    _check_measurements(run)
    with claim_folder(request.out):
        return _judge_run(run, request, progress)


def _check_measurements(run: Path) -> None:
    if not run.is_dir() or (run / MANIFEST).exists():
        return
    names = sorted(entry.name for entry in run.iterdir() if not entry.name.startswith("."))
    fix = f"flashcore-ci report {run}" if (run / reports.REPORT).exists() else "give a run folder or a file that `pack` wrote"
    raise EvidenceError(f"{run} holds no measurements ({MANIFEST}). It holds: {', '.join(names) or 'nothing'}", fix=fix)


def _judge_run(path: Path, request: Request, progress: Progress) -> Report:
    reports.clear(request.out)
    run = PartialRun()
    try:
        recording = read_run(path)
        evidence = recording.evidence
        run.commit = lambda: evidence.provenance.commit
        run.suite = load_suite(request)
        if recording.plan.suite != run.suite.name:
            progress(f"the run is of suite {recording.plan.suite!r} and is judged by {run.suite.name!r}. --suite chooses")
        with profiler_reports.reading(recording.files) as profiles:  # while the subjects say what they are
            plan = make_plan(run.suite, request, progress, compared=recorded.has_comparisons(recording))
            require_blocking(plan)
            run.no_base, new = recorded.without_base(recording)
            run.plan = drop_comparisons(plan, new)
            source = rederived(recorded.source_of(recording), run.plan, profiles)
        run.builds = evidence.builds
        compiled = compiler_evidence(run.plan, evidence.builds, evidence.provenance)
        run.sources.append(Source(origin=recorded.origin_of(evidence.provenance), evidence=compiled))
        run.sources.append(source)
        report = _name_day(judge_partial(run, request, as_of=request.as_of or evidence.provenance.collected_at), request)
        publish(report, run, request)
    except BaseException as error:  # noqa: BLE001 - as in gate
        return _end(error, run, request)
    return report


def _name_day(report: Report, request: Request) -> Report:
    """Say in the headline by which day waivers were judged, if it is not today's."""
    if all(verdict.outcome is not Outcome.WAIVED for verdict in report.verdicts):
        return report
    why = "--as-of" if request.as_of else "the day of collection"
    return replace(report, headline=f"{report.headline} (waivers as of {report.as_of[:10]}, {why})")


def judge_partial(run: PartialRun, request: Request, *, as_of: str) -> Report:
    """Judge every check. The headline says when they are only a part."""
    if run.suite is None or run.plan is None:
        raise InterruptedRunError("there is no plan to judge by")
    bar = run.bar
    report = judge(
        run.plan,
        run.builds,
        tuple(run.sources),
        waivers=run.suite.waivers,
        as_of=as_of,
        stale=StalePolicy(request.stale),
        tool=__version__,
        references=references.of(request.root / request.suite),
        base=run.base,
        max_age_days=run.max_age_days,
        bar=(
            *bar_verdicts(bar, run.again, tuple(run.sources), request, as_of=as_of, tool=__version__),
            *triage.verdicts(request, as_of=as_of),
        ),
        no_base=run.no_base,
    )
    only = f"only a part of the suite was judged: {hints.selection(request.only)}" if request.only else ""
    narrowing = "; ".join(filter(None, (bar.caveat if bar else "", only, run.narrowing)))
    headline = f"{report.headline} ({narrowing})" if narrowing else report.headline
    options = suite_option(request)
    verdicts = tuple(replace(verdict, next_step=hints.repeat(verdict.next_step, options)) for verdict in report.verdicts)
    return replace(report, headline=headline, judged_commit=run.commit(), verdicts=verdicts if options else report.verdicts)


def publish(report: Report, run: PartialRun, request: Request) -> None:
    """Write the reports, and annotate GitHub's log."""
    dossier = dossiers.make_dossier(run.suite, run.plan, run.builds, run.sources, root=request.root, base=run.base)
    reports.write(request.out, report, dossier)
    github.annotate(report, dossier, request.environ)


def _end(error: BaseException, run: PartialRun, request: Request) -> Report:
    """Write the reports of a run that ``error`` ended. Raise it unless the user did."""
    error = as_flashcore_error(error)
    if process.stopping() and isinstance(error, FlashcoreError):
        error = InterruptedRunError("the run was stopped before it was done")
    as_of = request.as_of or clock.now()
    report = replace(reports.unplanned(error, suite=str(request.suite), as_of=as_of), judged_commit=run.commit())
    published = False
    with contextlib.suppress(Exception):  # the error that is being reported comes first
        if run.plan is not None:
            judged = reports.ended_by(error, judge_partial(run, request, as_of=as_of))
            publish(judged, run, request)
            report, published = judged, True
    if not published:
        with contextlib.suppress(Exception):
            publish(report, PartialRun(), request)
    if isinstance(error, InterruptedRunError):
        return report
    raise error
