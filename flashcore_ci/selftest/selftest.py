"""Run the self-test, live or on its recording."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.verdict import Origin, Report, StalePolicy
from flashcore_ci.run import gate, references
from flashcore_ci.run.build import compiler_evidence
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.selftest import score, slowdowns, tampering
from flashcore_ci.selftest.loader import load
from flashcore_ci.selftest.model import Defect, Detection, SelfTest, SelfTestResult
from flashcore_ci.store.run import files_of, read_run
from flashcore_ci.suite.loader import load as load_suite

FILE = Path("gates/selftest.toml")


def load_selftest(root: Path) -> SelfTest:
    """Read the self-test of the checkout. SuiteError when a file is missing."""
    test = load(root / FILE)
    missing = [name for name in (test.suite, test.compared) if not (root / name).is_file()]
    if missing:
        raise SuiteError(tuple(f"{FILE}: there is no suite {name}" for name in missing), fix=f"correct {FILE}")
    return test


def run_live(test: SelfTest, request: Request, progress: Progress) -> SelfTestResult:
    """Measure the mutants here, then tamper with the evidence."""
    return _score(test, gate.gate(request, progress), request.out, progress)


def run_recorded(test: SelfTest, request: Request, progress: Progress) -> SelfTestResult:
    """Judge the recording, then tamper with its evidence."""
    run = request.root / test.recording
    return _score(test, gate.judge_run(run, request, progress), run, progress)


def _score(test: SelfTest, report: Report, run: Path, progress: Progress) -> SelfTestResult:
    idle = score.idle_globs(test, report)
    if idle:
        problems = tuple(f'{FILE}: clean: "{glob}" matches no target of {test.suite}' for glob in idle)
        raise SuiteError(problems, fix=f"correct {FILE}")
    progress("tampering with evidence")
    content = read_run(run)
    with scratch_folder() as scratch:
        good = tampering.GoodRun(
            files=files_of(run), run=content, scratch=scratch, judge=partial(_judge, content.plan), judge_plan=_judge
        )
        detections = tuple(_detect(defect, test, report, good) for defect in test.defects)
    uncontrolled = score.gates_without_a_control(test, report)
    return SelfTestResult(detections=detections, not_green=score.not_green(test, report), uncontrolled=uncontrolled)


def _detect(defect: Defect, test: SelfTest, report: Report, good: tampering.GoodRun) -> Detection:
    if defect.tampering:
        return tampering.detect(defect, good)
    if defect.slowdown:
        compared = Path.cwd() / test.compared
        return slowdowns.detect(defect, load_suite(compared, root=Path.cwd()), references.of(compared).noises)
    return score.detect(defect, report, good.run.evidence.observations)


def _judge(plan: Plan, evidence: Evidence) -> Report:
    compiled = compiler_evidence(plan, evidence.builds, evidence.provenance)
    sources = tuple(Source(origin=Origin(kind="recorded"), evidence=source) for source in (compiled, evidence))
    as_of = evidence.provenance.collected_at
    return judge(plan, evidence.builds, sources, waivers=(), as_of=as_of, stale=StalePolicy.BLOCK, tool=__version__)
