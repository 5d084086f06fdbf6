"""Run the self-test, live or on its recording."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Waiver
from flashcore_ci.model.verdict import Origin, Report, StalePolicy
from flashcore_ci.run import gate, profiler_reports, references
from flashcore_ci.run.build import compiler_evidence
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.rederive import rederived
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.selftest import score, slowdowns, tampering
from flashcore_ci.selftest.good_run import GoodRun
from flashcore_ci.selftest.loader import load
from flashcore_ci.selftest.model import Defect, Detection, SelfTest, SelfTestResult
from flashcore_ci.store.run import Run, read_whole
from flashcore_ci.suite.loader import load as load_suite
from flashcore_ci.suite.project import read_project


def load_selftest(root: Path, file: Path | None = None) -> SelfTest:
    """Read the self-test of the checkout. SuiteError when a file is missing."""
    file = file or read_project(root).path_of("selftest")
    test = load(root / file, shown=str(file))
    missing = [name for name in (test.suite, test.guard) if not (root / name).is_file()]
    if missing:
        raise SuiteError(tuple(f"{file}: there is no suite {name}" for name in missing), fix=f"correct {file}")
    return test


def run_live(test: SelfTest, request: Request, progress: Progress, base: Path | None = None) -> SelfTestResult:
    """Measure the mutants here, then tamper with the evidence. ``base``: the base's self-test."""
    return _score(test, gate.gate(_by_guard(test, request), progress), request.out, progress, base)


def run_recorded(test: SelfTest, request: Request, progress: Progress, base: Path | None = None) -> SelfTestResult:
    """Judge the recording, then tamper with its evidence. ``base`` as for ``run_live``."""
    if not test.recording:
        raise SuiteError((f"{test.file}: it names no recording",), fix='omit --recorded, or write recording = "FILE"')
    run = request.root / test.recording
    return _score(test, gate.judge_run(run, _by_guard(test, request), progress), run, progress, base)


def _by_guard(test: SelfTest, request: Request) -> Request:
    """Judge by the gates and limits of the suite that guards."""
    return replace(request, gates_of=Path(test.guard))


def _score(test: SelfTest, report: Report, run: Path, progress: Progress, base: Path | None) -> SelfTestResult:
    idle = score.idle_globs(test, report)
    if idle:
        problems = tuple(f'{test.file}: clean: "{glob}" matches no target of {test.suite}' for glob in idle)
        raise SuiteError(problems, fix=f"correct {test.file}")
    progress("tampering with evidence")
    content, files = read_whole(run)
    with scratch_folder() as scratch:
        guard = load_suite(Path.cwd() / test.guard, root=Path.cwd())
        plan, as_of = replace(content.plan, accepts=guard.accepts), content.evidence.provenance.collected_at
        good = GoodRun(files=files, run=content, scratch=scratch, plan=plan, judge_plan=partial(_judge, as_of))
        detections = tuple(_detect(defect, test, report, good) for defect in test.defects)
    uncontrolled = score.gates_without_a_control(test, report)
    return SelfTestResult(
        detections=detections,
        not_green=score.not_green(test, report),
        uncontrolled=uncontrolled,
        undefended=score.gates_without_a_defect(detections, (gate.id for gate in guard.gates)),
        dropped=score.dropped_defects(load(base), test) if base else (),
    )


def _detect(defect: Defect, test: SelfTest, report: Report, good: GoodRun) -> Detection:
    if defect.tampering:
        return tampering.detect(defect, good)
    if defect.slowdown:
        guard = Path.cwd() / test.guard
        return slowdowns.detect(defect, load_suite(guard, root=Path.cwd()), references.of(guard).noises)
    return score.detect(defect, report, good.run.evidence.observations)


def _judge(as_of: str, plan: Plan, run: Run, waivers: tuple[Waiver, ...] = ()) -> Report:
    evidence = run.evidence
    compiled = Source(origin=Origin(kind="recorded"), evidence=compiler_evidence(plan, evidence.builds, evidence.provenance))
    with profiler_reports.reading(run.files) as profiles:
        measured = rederived(Source(origin=Origin(kind="recorded"), evidence=evidence, files=run.files), plan, profiles)
    return judge(
        plan,
        evidence.builds,
        (compiled, measured),
        waivers=waivers,
        as_of=as_of,
        stale=StalePolicy.BLOCK,
        tool=__version__,
        max_age_days=plan.accepts.max_age_days if plan.accepts else None,
    )
