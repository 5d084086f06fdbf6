"""The timing worker, whole, on a made-up GPU: what it times, what its audits find, and what it tells the next process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB

ROOT = Path(__file__).parents[3]

SUBJECT = """
import made_up_timing
import torch

KERNEL = made_up_timing.Kernel()
PARAMS = {}

def inputs(params, seed):
    PARAMS.update(params)
    made_up_timing.SLOW[0] = params.get("slow", 0.0)
    return {"x": torch.randn(64, generator=torch.Generator().manual_seed(seed))}

def outputs(inputs):
    return {"out": torch.empty_like(inputs["x"])}

def run(inputs, outputs):
    KERNEL(inputs["x"], outputs["out"], microseconds=PARAMS["us"], keeps=PARAMS.get("keeps", False))

def reference(inputs):
    return {"out": inputs["x"] * 2.0}
"""


def timed(folder: Path, hints: dict[str, Any] | None = None, **params: Any) -> tuple[dict[str, Any], dict[str, bool] | None]:
    """The outcome of one workload, and what the worker tells the gate about graphs."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (folder / "subject.py").write_text(SUBJECT, encoding="utf-8")
    signal = folder / "go"
    signal.write_text(json.dumps(hints or {}), encoding="utf-8")
    for word in ("clear", "end"):
        (folder / f"go.{word}").touch()
    job = {
        "schema": "job-v1",
        "kind": "timing",
        "nonce": "n",
        "root": str(folder),
        "repository": str(folder),
        "subjects": [{"name": "s", "file": str(folder / "subject.py"), "library": None, "candidate": []}],
        "workloads": [{"id": "w", "subject": "s", "params": params, "seed": 0}],
        "options": {"order": 0, "uuid": "GPU-1", "limits": {}, "alone": True, "go": str(signal), "stays": True, "cores": 1},
    }
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    argv = [sys.executable, str(ROOT / "tests/support/made_up_timing.py"), str(folder / "job.json"), str(folder / "result.json")]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = folder / "go.done"
    outcome = json.loads((folder / "result.json").read_text(encoding="utf-8"))["outcomes"]["w"]
    return outcome, json.loads(told.read_text(encoding="utf-8")) if told.exists() else None


def test_the_time_of_a_short_kernel_lacks_the_start_of_a_graph(tmp_path: Path) -> None:
    outcome, told = timed(tmp_path, us=2.9)
    assert (outcome["batched"], outcome["graph_launches"], told) == (True, 17, {"w": True})
    assert outcome["ms"] == pytest.approx(2.9e-3)
    assert outcome["megacycles"] == pytest.approx(2.9e-3 * 1.98)


@pytest.mark.parametrize(("us", "batched"), [(49.0, True), (51.0, False)])
def test_50_microseconds_decide_unless_an_earlier_process_has(tmp_path: Path, us: float, batched: bool) -> None:
    """Else one process of five could launch in graphs, and its time would be of another kind."""
    outcome, told = timed(tmp_path, us=us)
    assert (outcome["batched"], told) == (batched, {"w": batched})
    outcome, told = timed(tmp_path, {"w": {"batched": not batched}}, us=us)
    assert (outcome["batched"], "graph_launches" in outcome, told) == (not batched, not batched, {"w": not batched})
    assert outcome["ms"] == pytest.approx(us / 1e3)


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        (
            {"us": 2.9, "keeps": True},
            "output-changed",
            "a launch on other values at the same addresses did not compute their output",
        ),
        (
            {"us": 80.0, "keeps": True},
            "output-changed",
            "a launch on other values at the same addresses did not compute their output",
        ),
        ({"us": 2.9, "slow": 25.0}, "unsettled", "µs to start, more than 30: launches of the shorter one may take longer"),
        ({"us": 0.0}, "output-changed", "the longer of two graphs takes no longer"),
    ],
)
def test_what_would_make_a_kernel_look_faster_is_found(tmp_path: Path, wrong: dict[str, Any], code: str, message: str) -> None:
    outcome, told = timed(tmp_path, **wrong)
    assert outcome["missing"]["code"] == code
    assert message in outcome["missing"]["message"]
    assert told is None
