"""Kernels that are compiled when they run, on a machine without a GPU: what recorded evidence is bound to."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from evidence_factories import good_observation, make_evidence
from pydantic import TypeAdapter
from replayed import ROOT

from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind
from flashcore_ci.store.codec import decode
from flashcore_ci.store.run import pack, prepare_run, write_run

FOLDER = Path("tests/functional/compiled")
SUITE = FOLDER / "suite.toml"
TARGET = "triton-r8192-c4096"


def test_a_recording_counts_until_a_source_a_lock_file_or_a_version_changes(cli: Any, tmp_path: Path) -> None:
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "evidence").mkdir()
    lock, kernel = tmp_path / "requirements.txt", tmp_path / FOLDER / "softmax_kernel.py"
    lock.write_text("torch==2.11.0\ntriton==3.6.0\n")

    def gate() -> tuple[str, str, Any]:
        cli("gate", "--suite", SUITE, "--recorded", "--only", f"max-diff/{TARGET}", "--evidence", "evidence", cwd=tmp_path)
        report = json.loads((tmp_path / "runs/latest/report.json").read_text(encoding="utf-8"))
        (verdict,) = report["verdicts"]
        return verdict["outcome"], verdict["reason"]["message"], report

    outcome, message, report = gate()
    assert (outcome, "no source has" in message) == ("INCONCLUSIVE", True)
    builds = TypeAdapter(tuple[BuildEvidence, ...]).validate_json(json.dumps(report["builds"]))
    plan = decode(Plan, cli("plan", "--suite", SUITE, "--json", cwd=tmp_path).stdout.encode(), where="plan")
    record(tmp_path, plan, builds)
    assert gate()[0] == "PASS"
    for file, added, name in ((kernel, "# faster\n", "softmax_kernel.py"), (lock, "numpy==2.4.0\n", "requirements.txt")):
        text = file.read_text()
        file.write_text(text + added)
        assert gate()[:2] == ("INCONCLUSIVE", f"{STALE} {file.relative_to(tmp_path)}"), name
        file.write_text(text)
    lock.write_text("torch==2.11.0\ntriton==3.7.0\n")
    assert gate()[1].endswith("requirements.txt, triton")


STALE = "the evidence is of other code or another question. Changed since:"


def record(folder: Path, plan: Plan, builds: tuple[BuildEvidence, ...]) -> None:
    """Pack good evidence of these builds."""
    build = next(build for build in builds if build.subject == "triton")
    seen = good_observation(plan, build, Kind.CORRECTNESS, TARGET)
    seen = replace(seen, readings=tuple((name, Measured(value=0.0, unit=reading.unit)) for name, reading in seen.readings))
    prepare_run(folder / "recorded", plan)
    write_run(folder / "recorded", plan, make_evidence(builds=builds, observations=(seen,)))
    pack(folder / "recorded", folder / "evidence/run.tar.xz")
