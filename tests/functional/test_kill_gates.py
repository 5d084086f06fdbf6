"""The tool that kills live gates finds what they leave. What it found on a GPU is in docs/trust.md."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "tools/study/kill_gates.py"
LEAVES = """
import os, sys, time
if os.fork() == 0:
    {}
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], {})
time.sleep(60)
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill_gates", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("steps", "environment", "good"),
    [
        ("os.setsid()", "{}", False),  # known as a descendant
        ("time.sleep(0.3); os.fork() and os._exit(0)", "dict(os.environ)", False),  # known by the mark
        ("os._exit(0)", "{}", True),
    ],
)
def test_what_a_killed_gate_leaves_is_found(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: str, environment: str, good: bool
) -> None:
    monkeypatch.setattr(tool, "LIMIT_SECONDS", 0.3)
    argv = [sys.executable, "-I", "-S", "-c", LEAVES.format(steps, environment)]
    found = tool.kill_one(argv, 0.6, "", 0, tmp_path / "log")
    assert (found["good"], found["ended_before"]) == (good, None)
    assert bool(found["left"]) != good


def test_a_gate_that_had_ended_was_not_killed(tool: ModuleType, tmp_path: Path) -> None:
    assert not tool.kill_one([sys.executable, "-I", "-S", "-c", ""], 0.5, "", 0, tmp_path / "log")["good"]
