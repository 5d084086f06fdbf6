"""Every number in the README that a command can show, compared with the suite, the recorded evidence and the code."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

import pytest

from flashcore_ci.judge.stats.sequential_test import ALPHA_NULL
from flashcore_ci.model.errors import MEANING
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Gate, Kind, Severity
from flashcore_ci.store.run import REPORTS, Run, read_run
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SUITE = load(ROOT / "gates/hopper.toml", root=ROOT)
GATES = {gate.id: gate for gate in SUITE.gates}
ROOFS = {"sol-dram": "sol/dram", "sol-sm": "sol/sm"}


@functools.cache
def recorded(suite: str) -> Run:
    return read_run(ROOT / f"gates/evidence/nvidia-h200-{suite}.tar.xz")


def row(*gates: str) -> str:
    """The limit of the table's row that names these gates."""
    (line,) = (line for line in README.splitlines() if line.startswith("| " + " ".join(f"`{gate}`" for gate in gates) + " |"))
    return line.split("|")[3]


def limits(gate: str) -> dict[str, float]:
    """The limits of a gate by the targets that they are for."""
    return {limit.on: limit.value for limit in GATES[gate].limits}


def only_limit(gate: str) -> float:
    """The one value that all limits of a gate have."""
    (value,) = set(limits(gate).values())
    return value


def test_every_gate_of_the_suite_has_a_row() -> None:
    table = README[README.index("| gate | question |") : README.index("How long it takes")]
    named = {
        name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`([\w-]+)`", line.split("|")[1])
    }
    assert named == set(GATES)


@pytest.mark.parametrize("gate", ["build", "spills", "local-memory", "instructions", "finite", "repeatable"])
def test_what_must_be_zero_is_zero(gate: str) -> None:
    assert (only_limit(gate), GATES[gate].rule) == (0, "==")


def test_the_limits_are_those_of_the_suite() -> None:
    assert limits("max-diff")["*"] == float(re.search(r"< (\S+) in fp16", row("max-diff"))[1])
    assert limits("max-diff")["*bf16*"] == float(re.search(r"< (\S+) in bf16", row("max-diff"))[1])
    assert f"ratio ≤ {limits('error-ratio')['*']:g}," in row("error-ratio")
    tools = ("memcheck", "racecheck", "synccheck", "initcheck")
    assert f"{only_limit('memcheck'):g} findings" in row(*tools)
    assert {only_limit(tool) for tool in tools} == {0}
    assert f"DRAM ≥ {only_limit('sol-dram'):g} %, SM ≥ {only_limit('sol-sm'):g} %" in row("sol-dram", "sol-sm")
    assert f"≤ {only_limit('no-drift'):g} %" in row("no-drift")
    stability: Gate = GATES["stability"]
    assert f"< {only_limit('stability'):g} % over at least {stability.min_samples}" in row("stability")
    assert stability.min_samples == SUITE.protocol.timing_processes
    assert only_limit("registers") == 100


def test_the_margins_and_the_false_alarms_of_a_comparison() -> None:
    margins = limits("no-slower")
    text = f"margin {margins['*']:g} % ({min(margins.values()):g} % to {max(margins.values()):g} % by row)"
    assert text in row("no-slower")
    assert ALPHA_NULL == 1 / 1000
    assert "one false alarm in a thousand suites" in row("no-slower")


def test_the_error_ratio_divides_by_twice_the_sum() -> None:
    source = "".join((ROOT / f"flashcore_ci/worker/{name}.py").read_text(encoding="utf-8") for name in ("correctness", "tensors"))
    assert "ALLOWED_TIMES = 2.0" in source
    assert "rounding = tensors.rounding_error(" in source
    assert "allowance = 2.0 * rounding.read(" in source
    assert "twice the sum of PyTorch's error and one rounding" in row("error-ratio")


def test_repeats_are_those_of_the_protocol() -> None:
    assert f"the same in {SUITE.protocol.repeats} runs" in README


def test_advisory_roofs_are_counted() -> None:
    checks = [check for check in recorded("hopper").plan.checks if check.gate.id in ROOFS]
    advisory = [check for check in checks if check.limit.severity is Severity.ADVISORY]
    profiles = {one.target: dict(one.readings) for one in recorded("hopper").evidence.observations if one.kind is Kind.PROFILE}
    readings = [(profiles[check.target][ROOFS[check.gate.id]], check.limit.value) for check in advisory]
    missed = sum(isinstance(reading, Measured) and reading.value < limit for reading, limit in readings)
    assert f"{len(advisory)} of the {len(checks)} `sol-dram` and `sol-sm` checks never block" in README
    assert f"H200 {missed} of them miss the roof" in README
    decode = [check.target for check in advisory if check.gate.id == "sol-dram"]
    assert len(decode) == 3
    assert all("-d64-page" in target or target.endswith("-d256-page8") for target in decode)
    assert all(any(kind in check.target for kind in ("-d64", "-s512-", "e4m3-", "-d256-page8")) for check in advisory)


def test_the_count_of_checks_is_that_of_the_recorded_plan() -> None:
    assert f"(default suite, {len(recorded('hopper').plan.checks):,} checks)" in README


def test_the_seconds_on_a_gpu_are_those_of_the_recording() -> None:
    seconds = re.search(r"\| `flashcore-ci gate` .*\| (\d+) s \|", README)[1]
    evidence = (ROOT / "gates/evidence/README.md").read_text(encoding="utf-8")
    (line,) = (line for line in evidence.splitlines() if "nvidia-h200-hopper.tar.xz" in line)
    assert f"{seconds} s" in line


def test_the_defects_of_the_self_test_are_counted() -> None:
    table = tomllib.loads((ROOT / "gates/selftest.toml").read_text(encoding="utf-8"))
    assert f"has {len(table['defect'])} defects" in README


def test_the_lengths_of_the_subjects() -> None:
    lengths = [len((ROOT / subject.file).read_text(encoding="utf-8").splitlines()) for subject in SUITE.subjects]
    assert f"subject files have {min(lengths)} to {max(lengths)} lines" in README
    shortest = min(SUITE.subjects, key=lambda subject: len((ROOT / subject.file).read_text(encoding="utf-8").splitlines()))
    assert f"[{Path(shortest.file).name}]({shortest.file}) is the shortest one" in README


def test_the_exit_codes() -> None:
    table = README[README.index("| exit code |") : README.index("The reports are written")]
    rows = [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in table.splitlines()[2:] if line]
    assert rows == [(str(int(code)), meaning) for code, meaning in MEANING.items()]


def test_every_report_has_a_row() -> None:
    table = README[README.index("| file | for |") : README.index("![The HTML report")]
    assert set(re.findall(r"`([\w.-]+\.(?:json|xml|md|html|sarif))`", table)) == set(REPORTS)


def test_the_python_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"You need Python {project['requires-python'].removeprefix('>=')}," in README


def test_the_share_of_the_dram_peak_that_the_stream_reaches() -> None:
    (profile,) = (
        dict(one.readings)
        for one in recorded("hopper").evidence.observations
        if one.kind is Kind.PROFILE and one.target == "stream-f32-2gib"
    )
    assert f"reaches {profile['sol/dram'].value:.0f} % of the DRAM peak" in README
