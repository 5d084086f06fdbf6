"""A run is judged by what its tools wrote, under a manifest that fits."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import tool_server
from replayed import COMMAND, ROOT, environ

from flashcore_ci.adapters.ncu import FOLDERS
from flashcore_ci.model.evidence import Evidence, Observation
from flashcore_ci.model.identity import workload_identity
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind
from flashcore_ci.selftest.tampering import seal
from flashcore_ci.store.codec import encode
from flashcore_ci.store.run import files_of, read_run
from flashcore_ci.suite.loader import load

BUNDLE = ROOT / "gates/evidence/nvidia-h200-hopper.tar.xz"
LOG, REPORT = "artifacts/sanitizer/memcheck.log", "artifacts/profile/report-0.ncu-rep"
PAGE = "artifacts/profile/report-0.csv"
FILES, RUN = files_of(BUNDLE), read_run(BUNDLE)
JUDGED = {workload.id for workload in load(ROOT / "gates/smoke.toml", root=ROOT).workloads}


def current(observation: Observation) -> Observation:
    """The observation as today's collector would bind it, so that no test depends on the age of the recording."""
    workload = next(workload for workload in RUN.plan.workloads if workload.id == observation.target)
    problem = RUN.plan.description(workload.subject).problem(workload.id)
    build = next(build for build in RUN.evidence.builds if build.subject == workload.subject)
    identity = workload_identity(observation.kind, workload, problem, build, RUN.plan.protocol)
    assert identity is not None
    return replace(observation, identity=identity)


EVIDENCE = replace(RUN.evidence, observations=tuple(map(current, RUN.evidence.observations)))


def judged(folder: Path, evidence: Evidence = EVIDENCE, **files: bytes | None) -> tuple[subprocess.CompletedProcess[str], dict]:
    """Judge the run with this evidence, and with these files in place of its own."""
    content = {**FILES, "evidence.json": encode(evidence), **files}
    for name, data in seal({name: data for name, data in content.items() if data is not None}).items():
        (folder / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "run" / name).write_bytes(data)
    argv = ["judge", str(folder / "run"), "--suite", "gates/smoke.toml", "--out", str(folder / "out")]
    done = tool_server.run(argv, cwd=ROOT, env={**environ(), "PYTHONPATH": str(ROOT)})
    return done, json.loads((folder / "out/report.json").read_text(encoding="utf-8"))


def one_more(kind: Kind, metric: str) -> Evidence:
    """The evidence with one reading of the judged suite raised by one."""
    done = False

    def change(observation: Observation) -> Observation:
        nonlocal done
        readings = dict(observation.readings)
        old = readings.get(metric)
        if done or observation.target not in JUDGED or observation.kind is not kind or not isinstance(old, Measured):
            return observation
        done, readings[metric] = True, replace(old, value=old.value + 1)
        return replace(observation, readings=tuple(readings.items()))

    return replace(EVIDENCE, observations=tuple(change(observation) for observation in EVIDENCE.observations))


def test_a_run_that_agrees_with_its_files_is_judged(tmp_path: Path) -> None:
    done, report = judged(tmp_path)
    assert done.returncode == 0, done.stderr
    assert report["outcome"] == "PASS"


@pytest.mark.parametrize(
    ("kind", "metric", "file"),
    [(Kind.SANITIZER, "memcheck/findings", LOG), (Kind.SANITIZER, "racecheck/launches", "roll-call.log"), (Kind.PROFILE, "sol/dram", REPORT)],
)  # fmt: skip
def test_a_number_that_a_file_denies_is_refused_in_one_line(kind: Kind, metric: str, file: str, tmp_path: Path) -> None:
    done, report = judged(tmp_path, one_more(kind, metric))
    assert done.returncode == 4
    (line,) = [line for line in done.stderr.splitlines() if "evidence.json says" in line]
    assert file in line
    assert metric in line
    assert "Traceback" not in done.stderr
    assert report["outcome"] != "PASS"


@pytest.mark.parametrize(
    ("files", "gate", "code"),
    [
        ({LOG: None}, "memcheck", "no-tool-file"),
        ({LOG: FILES[LOG].replace(b"SANITIZER\n", b"SANITIZER\n========= Tracking was limited\n")}, "memcheck", "unknown-output"),
        ({LOG: FILES[LOG] * 2}, "memcheck", "unknown-output"),
        ({REPORT: None}, "sol-dram", "no-tool-file"),
        ({REPORT: FILES[REPORT][:5000], PAGE: None}, "sol-dram", "invalid-report"),
    ],
)
def test_a_file_that_is_absent_or_damaged_is_missing_evidence(
    files: dict[str, bytes | None], gate: str, code: str, tmp_path: Path
) -> None:
    done, report = judged(tmp_path, **files)
    assert done.returncode == 11
    assert {v["reason"]["code"] for v in report["verdicts"] if v["gate"] == gate} == {code}


@pytest.mark.skipif(any(Path(folder).is_dir() for folder in FOLDERS), reason="Nsight Compute brings the library")
def test_without_the_library_a_run_without_the_page_is_not_green(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"import sys\nsys.modules['ncu_report'] = None\nfrom {COMMAND[-1]} import main\nsys.exit(main())\n", "utf-8"
    )
    judged(tmp_path, **{PAGE: None})
    run = str(tmp_path / "run")
    argv = [COMMAND[0], str(program), "judge", run, "--suite", "gates/smoke.toml", "--out", str(tmp_path / "out")]
    done = subprocess.run(argv, cwd=ROOT, env={**environ(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    report = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))
    assert done.returncode == 11
    assert {v["reason"]["code"] for v in report["verdicts"] if v["gate"] == "sol-dram"} == {"no-tool-file"}
