"""Candidates in a process of their own, measured by the real worker on a GPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from factories import make_workload

from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.model import isolation

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(os.geteuid() != 0, reason="a user of its own needs root")]

ROOT = Path(__file__).parents[3]
FOLDER = "tests/attacks/isolated"
FILES = tuple(f"{FOLDER}/{name}.py" for name in ("candidate", "work", "outputs", "times", "escapes"))


def run_cheat(folder: Path, kind: str, cheat: str, n: int = 1 << 23):
    """Run one workload in a separate worker, and its candidate in another process."""
    workload = make_workload("big", params=(("cheat", cheat), ("n", n)))
    order = JobSpec(
        kind=kind,
        name=kind,
        python=Path(sys.executable),
        root=ROOT,
        scratch=folder / "scratch",
        seconds=90.0,
        subjects=({"name": "scale", "file": str(ROOT / FOLDER / "definition.py"), "library": None, "candidate": FILES},),
        workloads=(workload,),
        options={
            "repeats": 3,
            "entries": {"big": ()},
            "python": None,
            "uuid": f"GPU-{torch.cuda.get_device_properties(0).uuid}",
            "order": 0,
            "limits": {"big": 1e-3},
        },
    )
    ended = child.run(order)
    assert ended.failure is None, ended.failure
    return ended.outcomes["big"]


def test_honest_outputs_are_right_and_isolated(tmp_path):
    outcome = run_cheat(tmp_path, "correctness", "honest")
    assert outcome["readings"]["diff/max"] < 1e-3
    assert outcome["isolation"] == {
        "mode": "own process",
        "network": "none",
        "user": "own",
        "filesystem": "allow-list",
        "clock": "none",
    }


@pytest.mark.parametrize("n", [1 << 16, 1 << 23])
def test_honest_work_is_timed(tmp_path, n):
    outcome = run_cheat(tmp_path, "timing", "honest", n)
    assert outcome.get("missing") is None
    assert outcome["batched"] == (n == 1 << 16)
    assert outcome["isolation"]["clock"] == isolation.CLOCK
    assert abs(outcome["clocks"]["inside_ms"] - outcome["ms"]) <= max(0.02 * outcome["ms"], 0.002)


@pytest.mark.parametrize(
    ("cheat", "code"),
    [
        ("fingerprint", "output-changed"),
        ("elapsed_time", "clocks-disagree"),
        ("work_later", "output-changed"),
        ("slow_short_burst", "clocks-disagree"),
        ("neighbours", "output-changed"),
        ("exit_early", "crash"),
        ("stop_supervisor", "raised"),
    ],
)
def test_a_cheat_is_missing(tmp_path, cheat, code):
    assert run_cheat(tmp_path, "timing", cheat)["missing"]["code"] == code
