"""The evidence that ships is of the code that ships, and green: what `make gate` shows on a machine without a GPU."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import tool_server
from replayed import ROOT, environ

from flashcore_ci.store.run import REPORTS, read_run

MOST_BYTES = 1_700_000
WITH_MUTANTS = frozenset({"12cd0b39660b3a0c3990716fc0dad3970f8d613b8cc117a16554dd0c9d2e82d2"})  # nvidia-h200-fp8.tar.xz
"""SHA-256 of bundles whose checkout had the sources of mutants in ``build/``. gates/evidence/README.md says more."""


PARTS = {"upstream": ("*-600", "*-2500", "*-1000")}
"""What was recorded of a suite, if not all: 12,000 cases take ten minutes."""


def judged(suite: str, out: Path) -> tuple[int, dict]:
    bundle = f"gates/evidence/nvidia-h200-{'hopper' if suite == 'smoke' else suite}.tar.xz"
    only = [word for part in PARTS.get(suite, ()) for word in ("--only", part)]
    argv = ["judge", bundle, "--suite", f"gates/{suite}.toml", "--out", str(out), *only]
    done = tool_server.run(argv, cwd=ROOT, env={**environ(), "PYTHONPATH": str(ROOT)})
    return done.returncode, json.loads((out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run judged by its suite."""
    out = tmp_path_factory.mktemp("hopper")
    judged("hopper", out)
    return out


@pytest.mark.parametrize("suite", ["hopper", "smoke", "fp8", "fp8-quantise", "invariance", "multi-gpu", "upstream"])
def test_the_recorded_run_is_green_by_its_suite(suite: str, tmp_path: Path) -> None:
    status, report = judged(suite, tmp_path)
    assert (status, report["outcome"]) == (0, "PASS")
    assert [v["target"] for v in report["verdicts"] if v["blocks"]] == []


def test_judging_twice_gives_the_same_bytes(hopper: Path, tmp_path: Path) -> None:
    judged("hopper", tmp_path)
    for file in REPORTS:
        assert (tmp_path / file).read_bytes() == (hopper / file).read_bytes()


def test_the_memory_roof_is_green_on_the_stream_and_on_every_decode_that_it_blocks(hopper: Path) -> None:
    report = json.loads((hopper / "report.json").read_text(encoding="utf-8"))
    found = {v["target"]: v for v in report["verdicts"] if v["gate"] == "sol-dram"}
    assert found["stream-f32-2gib"]["outcome"] == "PASS"
    assert {v["outcome"] for v in found.values() if v["severity"] == "blocking"} == {"PASS"}
    allowed = {target for target, v in found.items() if v["severity"] == "advisory"}
    assert {target for target, v in found.items() if v["outcome"] != "PASS"} <= allowed


def test_the_page_draws_every_timed_workload_of_the_default_suite(hopper: Path) -> None:
    page = (hopper / "report.html").read_text(encoding="utf-8")
    assert "more timed workloads are in dossier.json" not in page
    assert "decode-ragged-fp16-b32-h32-kv8-s32768-d128</a>" in page


def test_bundles_stay_small_and_say_where_they_are_from() -> None:
    bundles = sorted((ROOT / "gates/evidence").glob("*.tar.xz"))
    assert sum(bundle.stat().st_size for bundle in bundles) < MOST_BYTES
    for bundle in bundles:
        provenance = read_run(bundle).evidence.provenance
        assert provenance.device is not None
        assert provenance.commit
        assert not provenance.dirty or hashlib.sha256(bundle.read_bytes()).hexdigest() in WITH_MUTANTS
