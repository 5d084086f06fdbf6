"""Law 4 for gates that hold one measurement against another: timings recorded on an H200, and the same made slower.

Judged by the suite, the baseline and the noise that ship. What is planted here is a factor on recorded samples.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
import tool_server
from replayed import ROOT, environ

from flashcore_ci.collect.process_runs import SAMPLE_KEYS
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.judge.stats.descriptive import relative_std
from flashcore_ci.judge.stats.distributions import t_quantile
from flashcore_ci.judge.stats.sequential_test import ALPHA_NULL
from flashcore_ci.model.baseline import Baseline
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.identity import collector_digest
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing, Samples
from flashcore_ci.model.suite import Kind, Roof
from flashcore_ci.model.verdict import Origin, StalePolicy, Verdict
from flashcore_ci.plan.planner import make_plan
from flashcore_ci.run import references
from flashcore_ci.store.run import Run, prepare_run, read_run, write_run
from flashcore_ci.suite.loader import load

PROCESSES = 5
"""Of a run, and of its baseline."""
LOUD_ROWS = frozenset({"prefill-fp16-b64-h16-s512-d128-causal", "prefill-fp16-b64-h8-s512-d256-causal"})
"""The rows of the recorded run that did so. Each new recording names its own."""
TWO_SPEEDS = frozenset[str]()
"""The rows whose five recorded processes form two groups when they are repeated as rounds."""
ROUNDS = 8
SUITE = ROOT / "gates/hopper.toml"


@cache
def recorded() -> Run:
    return read_run(ROOT / "gates/evidence/nvidia-h200-hopper.tar.xz")


@cache
def plan() -> Plan:
    """The checks of the two gates, on what was recorded."""
    whole = make_plan(load(SUITE, root=ROOT), recorded().plan.descriptions, compared=True)
    return replace(whole, checks=tuple(check for check in whole.checks if check.gate.id in {"no-slower", "no-drift"}))


@cache
def baseline() -> Baseline:
    """The baseline that ships, of the machine of the recorded run."""
    (found,) = (one for one in references.of(SUITE).baselines if one.is_for(recorded().evidence.provenance))
    return found


def timed(gate: str = "no-slower") -> dict[str, Observation]:
    """What was timed of the rows that the gate is asked of: not every row is compared."""
    asked = {check.target for check in plan().checks if check.gate.id == gate}
    return {o.target: o for o in recorded().evidence.observations if o.kind is Kind.TIMING and o.target in asked}


def slower(values: tuple[float, ...], percent: float) -> tuple[float, ...]:
    return tuple(value * (1.0 + percent / 100.0) for value in values)


def compared(observation: Observation, percent: float) -> Observation:
    """Recorded processes as rounds: each side takes them in an order of its own, so that no process meets itself."""
    identity = replace(observation.identity, collector=collector_digest(Kind.COMPARISON, plan().protocol))
    samples = []
    for name, recording in observation.samples:
        values = recording.values
        sides = {"base": 0.0, "head": percent if "clock" not in name else 0.0}
        for offset, (side, extra) in enumerate(sides.items()):
            taken = tuple(values[(index * (offset + 1) + 2 * offset) % len(values)] for index in range(ROUNDS))
            samples.append((f"{side}/{name}", Samples(values=slower(taken, extra), unit=recording.unit)))
    base = replace(identity, machine_code="base")
    return replace(observation, kind=Kind.COMPARISON, identity=identity, base=base, samples=tuple(samples), readings=())


def drifted(observation: Observation, percent: float) -> Observation:
    """The recorded processes, slower than their baseline by this much: GPUs of one model differ by 2.4 % when they read. 0: as they are."""
    values = dict(observation.samples)
    row = baseline().of(observation.target)
    assert row is not None
    is_memory = observation.target in {workload.id for workload in plan().workloads if workload.roof is Roof.MEMORY}
    then, now = (row.ms, values["time/gpu/cold"]) if is_memory else (row.megacycles, values["cycles/gpu/cold"])
    percent = 100.0 * ((1.0 + percent / 100.0) * fmean(then) / fmean(now.values) - 1.0) if percent else 0.0
    samples = tuple(
        (name, found if name == "clock/sm" else replace(found, values=slower(found.values, percent)))
        for name, found in observation.samples
    )
    return replace(observation, samples=samples)


def verdicts(gate: str, percent: float) -> list[Verdict]:
    found = tuple((compared if gate == "no-slower" else drifted)(one, percent) for one in timed(gate).values())
    evidence = replace(recorded().evidence, observations=found)
    report = judge(
        plan(),
        evidence.builds,
        (Source(origin=Origin(kind="live"), evidence=evidence),),
        waivers=(),
        as_of=evidence.provenance.collected_at,
        stale=StalePolicy.BLOCK,
        tool="test",
        references=references.of(SUITE),
    )
    return [verdict for verdict in report.verdicts if verdict.gate == gate]


def write_results(folder: Path, observation: Observation) -> tuple[str, ...]:
    """Write what each process of a comparison would have written, and return the files."""
    names = []
    for index in range(ROUNDS):
        for side in ("base", "head"):
            mine = {name.partition("/")[2]: found for name, found in observation.samples if name.startswith(f"{side}/")}
            outcome = {SAMPLE_KEYS[name]: found.values[index] for name, found in mine.items()}
            names.append(f"artifacts/comparison/{observation.target}-{index}-{side}.json")
            (folder / names[-1]).parent.mkdir(exist_ok=True)
            (folder / names[-1]).write_text(json.dumps({"outcomes": {observation.target: outcome}}), encoding="utf-8")
    return tuple(names)


def judged(folder: Path, observations: tuple[Observation, ...]) -> tuple[int, str, dict]:
    """The command line's verdict on the recorded run with these comparisons in it."""
    prepare_run(folder, plan())
    compared_here = tuple(replace(one, artifacts=write_results(folder, one)) for one in observations)
    evidence = replace(recorded().evidence, observations=compared_here)
    write_run(folder, plan(), evidence)
    argv = ["judge", str(folder), "--suite", "gates/hopper.toml", "--only", "no-slower"]
    done = tool_server.run(argv, cwd=ROOT, env={**environ(), "PYTHONPATH": str(ROOT)})
    return done.returncode, done.stdout, json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_a_recorded_comparison_is_judged_from_the_command_line(tmp_path: Path) -> None:
    status, shown, report = judged(tmp_path / "run", tuple(compared(one, 5.0) for one in timed().values()))
    assert status == 10
    codes = {verdict["target"]: verdict["reason"]["code"] for verdict in report["verdicts"]}
    assert codes.keys() == timed().keys()
    assert {code for target, code in codes.items() if target not in TWO_SPEEDS} == {"slower"}
    assert set(codes.values()) <= {"slower", "bimodal"}
    assert "after 8 rounds (confidence bounds +" in shown
    assert 'to accept it: a waiver with pair = "' in shown


def test_what_the_base_could_not_run_is_inconclusive(tmp_path: Path) -> None:
    first, *rest = timed().values()
    cannot = replace(compared(first, 0.0), samples=(), missing=Missing(code=Code.NO_BASE, message="the base has no such kernel"))
    status, _, report = judged(tmp_path / "run", (cannot, *(compared(one, -5.0) for one in rest)))
    codes = {verdict["target"]: verdict["reason"]["code"] for verdict in report["verdicts"]}
    assert codes == {first.target: "no-base"} | {one.target: "bimodal" if one.target in TWO_SPEEDS else "faster" for one in rest}
    assert status == 11


def test_a_comparison_that_was_lost_is_no_pass(tmp_path: Path) -> None:
    lost, *rest = timed().values()
    status, _, report = judged(tmp_path / "run", tuple(compared(one, -5.0) for one in rest))
    assert status == 11
    assert [v["target"] for v in report["verdicts"] if v["reason"]["code"] == "no-evidence"] == [lost.target]


@pytest.mark.parametrize(("gate", "code"), [("no-slower", "slower"), ("no-drift", "drifted")])
def test_five_per_cent_turn_every_row_red(gate: str, code: str) -> None:
    red = verdicts(gate, 5.0)
    assert len(red) == len(timed(gate)) >= 17
    assert all(verdict.blocks for verdict in red)
    quiet = [verdict for verdict in red if scatter(verdict.target) < loud(len(red))]
    assert {verdict.target for verdict in red} - {verdict.target for verdict in quiet} == LOUD_ROWS & timed(gate).keys()
    assert {(verdict.outcome, verdict.reason.code) for verdict in quiet} == {("FAIL", code)}


def loud(rows: int) -> float:
    """Per cent: processes that scatter by more cannot tell 5 % from 2 % next to a quiet baseline, so they block as undecided."""
    t = t_quantile(ALPHA_NULL / rows, 2 * PROCESSES - 2)
    return 100.0 * math.log(1.05 / 1.02) / (t * math.sqrt(0.5 * 2 / PROCESSES))


def scatter(target: str) -> float:
    """By how many per cent the recorded processes scatter, in cycles."""
    return relative_std(dict(timed("no-drift")[target].samples)["cycles/gpu/cold"].values)


def test_what_was_recorded_is_not_slower() -> None:
    assert {verdict.outcome for verdict in verdicts("no-slower", 0.0)} <= {"PASS", "INCONCLUSIVE"}


def test_the_baseline_that_ships_covers_what_is_recorded() -> None:
    """Except the rows that a dated waiver names, and each of these waivers is needed."""
    waived = {waiver.target for waiver in load(SUITE, root=ROOT).waivers if waiver.gate == "no-drift"}
    assert {verdict.target for verdict in verdicts("no-drift", 0.0) if verdict.outcome != "PASS"} == waived
