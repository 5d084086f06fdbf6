from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from evidence_factories import good_evidence, make_observation
from factories import make_build, make_plan, make_suite
from hypothesis import given
from hypothesis import strategies as st
from report_factories import LIVE

from flashcore_ci.judge.judge import Source
from flashcore_ci.model.dossier import Dossier, Excerpt, Trace
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import dossier

PLAN = make_plan()
PROCESS = "artifacts/timing/process-0.json"


def timed(*files: str):
    return make_observation(Kind.TIMING, "big", artifacts=files)


def result(blocks: object) -> bytes:
    return json.dumps({"outcomes": {"big": {"blocks": blocks}}}).encode()


def source_of(tmp_path: Path, file: str, line: int) -> list[Excerpt]:
    return list(dossier.excerpts([Finding(tool="memcheck", message="m", file=file, line=line)], tmp_path))


def test_without_a_plan_there_is_nothing() -> None:
    assert dossier.make_dossier(None, None, (), [], root=Path()) == Dossier()


def test_it_holds_the_observations_that_answered_and_no_others(tmp_path: Path) -> None:
    good = good_evidence(PLAN)
    stranger = replace(good.observations[0], identity=replace(good.observations[0].identity, launcher="other"))
    evidence = replace(good, observations=(*good.observations, stranger))
    made = dossier.make_dossier(make_suite(), PLAN, (make_build(),), [Source(origin=LIVE, evidence=evidence)], root=tmp_path)
    asked = {(check.gate.evidence, check.target) for check in PLAN.checks}
    assert {(seen.kind, seen.target) for seen in made.observations} == asked
    assert stranger not in made.observations
    assert (made.suite_file, made.workloads, made.ridge) == (PLAN.suite_file, PLAN.workloads, make_suite().ridge)


def test_clocks_come_from_the_workers_results_in_the_order_of_processes() -> None:
    files = {
        PROCESS: result([[0.5, 1.0, 1700.0], [0.6, 1.0, 1690.5]]),
        "artifacts/timing/process-1.json": result([[0.1, 1, 1980]]),
    }
    assert list(dossier.traces(timed(*files), files)) == [
        Trace(workload="big", process=0, seconds=(0.5, 0.6), mhz=(1700.0, 1690.5)),
        Trace(workload="big", process=1, seconds=(0.1,), mhz=(1980.0,)),
    ]


def test_a_long_trace_is_thinned_and_keeps_its_end() -> None:
    files = {PROCESS: result([[float(number), 1.0, 1700.0] for number in range(321)])}
    (trace,) = dossier.traces(timed(PROCESS), files)
    assert len(trace.seconds) <= dossier.MAX_POINTS
    assert trace.seconds[-1] == 320.0


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", result(None), result([[1]]), result([["a", 1, 2]]), result({"a": 1})]
)
def test_results_that_say_nothing_of_clocks_are_no_error(data: bytes) -> None:
    assert list(dossier.traces(timed(PROCESS), {PROCESS: data})) == []
    assert list(dossier.traces(timed(PROCESS), {})) == []


def test_the_source_around_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("".join(f"line {number}\n" for number in range(1, 9)))
    assert source_of(tmp_path, "a.cu", 4) == [
        Excerpt(file="a.cu", line=4, first=2, lines=("line 2", "line 3", "line 4", "line 5", "line 6"))
    ]
    assert source_of(tmp_path, "a.cu", 1)[0].lines == ("line 1", "line 2", "line 3")
    assert source_of(tmp_path, "a.cu", 9) == []


def test_the_source_of_a_run_of_another_checkout(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/a.cu").write_text("x\n")
    assert source_of(tmp_path, "/src/check/kernel/a.cu", 1)[0].lines == ("x",)


def test_nothing_but_sources_of_the_checkout_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret.cu").write_text("secret\n")
    root = tmp_path / "checkout"
    root.mkdir()
    (root / ".env").write_text("TOKEN=1\n")
    (root / "link.cu").symlink_to(tmp_path / "secret.cu")
    (root / "folder.cu").mkdir()
    for file in (
        ".env",
        "../secret.cu",
        "link.cu",
        "folder.cu",
        "no.cu",
        str(tmp_path / "secret.cu"),
        "a\0.cu",
        "x" * 5000 + ".cu",
    ):
        assert source_of(root, file, 1) == []


@given(file=st.text(), line=st.integers())
def test_any_name_is_no_error(file: str, line: int) -> None:
    source_of(Path(__file__).parent, file, line)


def test_the_roofs_are_those_of_the_gpu_that_was_measured(tmp_path: Path) -> None:
    good = good_evidence(PLAN)
    device = replace(good.provenance.device, name="NVIDIA H100 80GB HBM3")
    evidence = replace(good, provenance=replace(good.provenance, device=device))
    made = dossier.make_dossier(make_suite(), PLAN, (make_build(),), [Source(origin=LIVE, evidence=evidence)], root=tmp_path)
    assert (made.ridge.device, made.ridge.bandwidth) == ("NVIDIA H100 80GB HBM3", 3.35e12)
