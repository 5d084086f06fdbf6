"""``flashcore-ci selftest``: break the kernel on purpose, and see whether the gate that is meant for it says so."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from flashcore_ci import __version__
from flashcore_ci.cli import console, options, signals
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.errors import ExitCode, SuiteError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.verdict import Origin, Report, StalePolicy, Verdict
from flashcore_ci.run import gate, references
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.selftest import score as scoring
from flashcore_ci.selftest import slowdowns, table, tampering
from flashcore_ci.selftest.loader import load
from flashcore_ci.selftest.model import Caught, Planted, SelfTest
from flashcore_ci.store.run import files_of, read_run
from flashcore_ci.suite.loader import load as load_suite

FILE = Path("gates/selftest.toml")
OUT = Path("runs/selftest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the self-test found: an answer for each defect, what should have been green, and gates that were green on nothing."""

    caught: tuple[Caught, ...]
    not_green: tuple[Verdict, ...]
    uncontrolled: tuple[str, ...]

    @property
    def all_is_well(self) -> bool:
        """Whether every defect was caught and nothing else was."""
        return all(one.is_caught for one in self.caught) and not self.not_green and not self.uncontrolled


@click.command("selftest")
@click.option("--recorded", "is_recorded", is_flag=True, help="Judge the recorded run again; needs no GPU.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=OUT, show_default=True, help="Folder for the run and its reports."
)
@options.build
@options.toolchain
@options.allow_process
@options.gpu
@options.lock_timeout
@options.jobs
def command(*, is_recorded: bool, out: Path, **asked: Any) -> int:
    """Break the kernels on purpose: does each gate go red on the defect that is meant for it?

    Builds and measures the planted defects of gates/selftest.toml, damages evidence, and prints who was caught by which gate and
    why. Exit code 0 only when all were, and what has no defect is green; else 10.
    """
    teller = console.Teller(os.environ)
    test = load(Path.cwd() / FILE)
    request = Request(suite=Path(test.suite), out=out, environ=os.environ, live=True, **asked)
    with signals.graceful():
        answers = from_recording(test, request, teller) if is_recorded else from_machine(test, request, teller)
    teller.done()
    said = [*table.lines(answers.caught), "", *table.summary(answers.caught, answers.not_green, answers.uncontrolled)]
    click.echo("\n".join(said))
    return ExitCode.PASSED if answers.all_is_well else ExitCode.GATE_FAILED


def from_machine(test: SelfTest, request: Request, progress: Progress) -> Answers:
    """Build and run the defects on this machine's GPU."""
    report = gate.gate(request, progress)
    return answers_of(test, report, request.out, progress)


def from_recording(test: SelfTest, request: Request, progress: Progress) -> Answers:
    """Judge the recording again."""
    run = request.root / test.recording
    return answers_of(test, gate.judge_run(run, request, progress), run, progress)


def answers_of(test: SelfTest, report: Report, run: Path, progress: Progress) -> Answers:
    """Every defect's answer: of kernels from the report, of evidence by damaging copies of ``run``."""
    idle = scoring.idle_globs(test, report)
    if idle:
        raise SuiteError(
            tuple(f'{FILE}: clean: "{glob}" matches no target of {test.suite}' for glob in idle), fix="correct the file"
        )
    progress("damaging evidence")
    content = read_run(run)
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as scratch:
        bench = tampering.Bench(files=files_of(run), run=content, scratch=Path(scratch), judge=partial(_judged, content.plan))
        caught = tuple(_answer(one, test, report, bench) for one in test.planted)
    return Answers(
        caught=caught,
        not_green=scoring.not_green(test, report),
        uncontrolled=scoring.gates_without_a_control(test, report),
    )


def _answer(one: Planted, test: SelfTest, report: Report, bench: tampering.Bench) -> Caught:
    if one.damage:
        return tampering.inflict(one, bench)
    if one.slower:
        compared = Path.cwd() / test.compared
        return slowdowns.caught(one, load_suite(compared, root=Path.cwd()), references.of(compared).noises)
    return scoring.caught(one, report, bench.run.evidence.observations)


def _judged(plan: Plan, evidence: Evidence) -> Report:
    """The verdicts on this evidence by the plan that it answers."""
    compiled = gate.static(plan, evidence.builds, evidence.provenance)
    return judge(
        plan,
        evidence.builds,
        tuple(Source(origin=Origin(kind="recorded"), evidence=one) for one in (compiled, evidence)),
        waivers=(),
        as_of=evidence.provenance.collected_at,
        stale=StalePolicy.BLOCK,
        tool=__version__,
    )
