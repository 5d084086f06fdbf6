"""Several GPUs as one subject: two ranks on the CPU over gloo, with an interpreter that has torch."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RANKS = ROOT / "tests/support/gloo_ranks.py"


def torch_python() -> str:
    """Return an interpreter that has torch, or ""."""
    named = os.environ.get("FLASHCORE_CI_PYTHON", "")
    if named and subprocess.run([named, "-c", "import torch.distributed"], capture_output=True, check=False).returncode == 0:
        return named
    return sys.executable if importlib.util.find_spec("torch") else ""


def ranks(*cases: str) -> dict[str, list[dict[str, Any]]]:
    """Run two ranks on each scheme, or scheme:defect."""
    python = torch_python()
    if not python:
        pytest.skip("no interpreter with torch: name one in FLASHCORE_CI_PYTHON")
    done = subprocess.run([python, str(RANKS), *cases], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, list[dict[str, Any]]]:
    """Return what both ranks found, of all cases in one pair of processes."""
    return ranks(
        "heads",
        "context",
        "heads:wrong-order",
        "heads:copies",
        "heads:skips",
        "heads:alone",
        "heads:drifts",
        "context:no-rescale",
    )


def test_two_ranks_compute_what_one_does(found: dict[str, list[dict[str, Any]]]) -> None:
    for rank in (*found["heads"], *found["context"]):
        assert rank["error"] < 2e-3
        assert rank["traffic"] == 1.0
    assert all(rank["same_as_one"] and rank["same_on_all"] for rank in found["heads"])


def test_each_rank_draws_inputs_that_no_other_knows(found: dict[str, list[dict[str, Any]]]) -> None:
    assert all(rank["other_inputs"] for rank in found["heads"])


def test_a_rank_alone_repeats_its_bits_from_recorded_messages(found: dict[str, list[dict[str, Any]]]) -> None:
    assert all(rank["same_played"] for rank in (*found["heads"], *found["context"]))


def test_a_number_that_is_not_one_is_the_worst(found: dict[str, list[dict[str, Any]]]) -> None:
    assert all(rank["worst"][0] == 1.0 and rank["worst"][1] == float("inf") for rank in found["heads"])


@pytest.mark.parametrize("case", ["heads:wrong-order", "heads:copies", "heads:skips", "context:no-rescale"])
def test_a_wrong_result_is_far_from_the_reference(found: dict[str, list[dict[str, Any]]], case: str) -> None:
    assert all(rank["error"] > 2e-3 for rank in found[case])


def test_a_rank_that_computes_all_receives_other_bytes(found: dict[str, list[dict[str, Any]]]) -> None:
    assert all(rank["traffic"] != 1.0 for rank in found["heads:alone"])
    assert all(rank["error"] < 2e-3 for rank in found["heads:alone"])


def test_a_rank_that_drifts_differs(found: dict[str, list[dict[str, Any]]]) -> None:
    assert not any(rank["same_on_all"] for rank in found["heads:drifts"])


def test_ranks_that_cannot_start_end_together_and_say_why(tmp_path: Path) -> None:
    options = {"gpus": 2, "uuids": ["GPU-1", "GPU-2"], "rank_seconds": 30.0, "python": None}
    job = {"schema": "job-v1", "kind": "correctness", "nonce": "n", "root": str(tmp_path), "subjects": [], "workloads": []}
    (tmp_path / "job.json").write_text(json.dumps({**job, "options": options}), encoding="utf-8")
    argv = [sys.executable, "-m", "flashcore_ci.worker", str(tmp_path / "job.json"), str(tmp_path / "result.json")]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environ, cwd=tmp_path)
    assert done.returncode == 1
    assert "ended early, exit status 1" in done.stderr.splitlines()[-1]
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["finished"] is False
