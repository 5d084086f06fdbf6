"""Law 4: every gate has a planted defect that turns it red. The recorded run of the defects, judged again by this checkout."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from evidence_factories import good_observation, make_evidence
from factories import make_build, make_check, make_plan
from replayed import COMMAND, RECORDINGS, ROOT, SUITE, Verdicts, environ

from flashcore_ci.adapters import sanitizer
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.codes import Code
from flashcore_ci.model.suite import Gate, Kind
from flashcore_ci.model.verdict import Origin, Outcome, StalePolicy
from flashcore_ci.suite.loader import load

RED: dict[str, dict[str, str]] = {
    "build": {"broken": "compile-error"},
    "spills": {"defect_spills": "over-limit"},
    "local-memory": {"defect_spills": "over-limit"},
    "registers": {"defect_spills": "over-limit"},
    "instructions": {"defect_wrong": "over-limit"},
    "max-diff": {
        "wrong-n100003": "over-limit",
        "unwritten-n100003": "not-finite",
        "trap-n100003": "crash",
        "hang-n100003": "hang",
    },
    "error-ratio": {"wrong-n100003": "over-limit", "unwritten-n100003": "not-finite"},
    "finite": {"unwritten-n100003": "over-limit", "trap-n100003": "crash"},
    "repeatable": {"flaky-n100003": "over-limit", "hang-n100003": "hang"},
    "memcheck": {"overrun-n20001": "over-limit"},
    "racecheck": {"race-n20001": "over-limit"},
    "initcheck": {"uninitialised-n20001": "over-limit"},
    "sol-dram": {"scattered-n33554432": "under-limit"},
    "sol-sm": {"lazy-n1048576": "under-limit"},
    "stability": {"moody-n33554432": "over-limit"},
}
"""Gate, the workload, entry function or subject that it must catch, and with which reason."""

RED_IN_A_TRANSCRIPT = {"synccheck": "sync.log"}
"""Gates whose red case is a transcript in tests/recordings/sanitizer. The barrier in the recorded `divergent` was one that the
compiler had made legal (the other threads exit before it); kernel/defects/divergent.cu is mended and waits for the next run."""

RED_BESIDE = {"no-slower", "no-drift"}
"""Gates that hold one measurement against another: test_planted_slowdowns.py has their red cases."""

CASES = [(gate, target, code) for gate, cases in RED.items() for target, code in cases.items()]
SHIPPED = sorted((ROOT / "gates").glob("*.toml"))
UNBUILT = {"broken", "defect_broken", "broken-n4"}


def gates(file: Path) -> dict[str, Gate]:
    return {gate.id: gate for gate in load(file, root=ROOT).gates}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """The recorded run by the suite in this checkout."""
    out = tmp_path_factory.mktemp("judged")
    argv = [*COMMAND, "judge", str(RECORDINGS / "defects.tar.xz"), "--suite", SUITE, "--out", str(out)]
    done = subprocess.run(argv, cwd=ROOT, env={**environ(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 10, done.stderr
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return {(v["gate"], v["target"]): (v["outcome"], v["reason"]["code"]) for v in report["verdicts"]}


@pytest.mark.parametrize("file", [file for file in SHIPPED if file.name != "waivers.toml"], ids=lambda file: file.stem)
def test_every_gate_that_ships_has_a_red_case(file: Path) -> None:
    assert sorted(set(gates(file)) - set(RED) - set(RED_IN_A_TRANSCRIPT) - RED_BESIDE) == []


@pytest.mark.parametrize("gate", gates(ROOT / "gates/hopper.toml").values(), ids=lambda gate: gate.id)
def test_the_defects_meet_the_gates_that_ship(gate: Gate) -> None:
    if gate.id in RED_BESIDE:
        pytest.skip("a defect of its own is no slower than itself")
    here = gates(ROOT / SUITE)[gate.id]
    assert (here.evidence, here.metric, here.rule, here.statistic) == (gate.evidence, gate.metric, gate.rule, gate.statistic)


@pytest.mark.parametrize(("gate", "target", "code"), CASES)
def test_the_defect_turns_its_gate_red(verdicts: Verdicts, gate: str, target: str, code: str) -> None:
    assert verdicts[gate, target] == ("FAIL", code)


def test_the_transcript_turns_its_gate_red() -> None:
    """The log of a real divergent barrier, read by the adapter and judged by the gate that ships."""
    gate = gates(ROOT / "gates/hopper.toml")["synccheck"]
    log = sanitizer.parse(
        (ROOT / "tests/recordings/sanitizer" / RED_IN_A_TRANSCRIPT[gate.id]).read_text(encoding="utf-8"), gate.id
    )
    findings = sanitizer.findings_reading(log, returncode=sanitizer.ERROR_EXIT, version="2026.4.0.0", ran=True)
    plan = make_plan(checks=(make_check(gate=gate, target="small"),))
    observation = good_observation(plan, make_build(), Kind.SANITIZER, "small", readings=((gate.metric, findings),))
    source = Source(origin=Origin(kind="live"), evidence=make_evidence(observations=(observation,)))
    report = judge(plan, (make_build(),), (source,), waivers=(), as_of="2026-11-21", stale=StalePolicy.BLOCK, tool="test")
    assert [(v.outcome, v.reason.code) for v in report.verdicts] == [(Outcome.FAIL, Code.OVER_LIMIT)]


def test_the_control_is_green_everywhere(verdicts: Verdicts) -> None:
    control = {check: verdict for check, verdict in verdicts.items() if check[1].startswith(("sound-", "defect_sound"))}
    others = {"build", "sol-sm", "sol-dram"}  # their green control is the default suite's evidence, which test_evidence judges
    assert {gate for gate, _ in control} == (set(RED) | set(RED_IN_A_TRANSCRIPT)) - others | {"sol-dram"}
    assert {check: verdict for check, verdict in control.items() if verdict[0] != "PASS" and check[0] not in others} == {}


def test_no_verdict_is_left_open_but_on_what_was_never_built(verdicts: Verdicts) -> None:
    still_open = {check for check, (outcome, _) in verdicts.items() if outcome not in {"PASS", "FAIL"}}
    assert {target for _, target in still_open} <= UNBUILT
