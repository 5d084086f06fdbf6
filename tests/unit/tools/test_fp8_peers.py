"""tools/bench/fp8_peers.py: a peer's readings are judged by the suite's limits, and its refusals are rows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.suite.loader import load

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("fp8_peers", ROOT / "tools/bench/fp8_peers.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(module)
    ours = SimpleNamespace(attention_e4m3="ours", attention_e4m3_varlen="ours")
    cuda = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    fakes = {"flashcore": ours, "torch": cuda}
    monkeypatch.setattr(module.importlib, "import_module", fakes.__getitem__)
    module.ours, module.suite = ours, load(ROOT / "gates/fp8.toml", root=ROOT)
    return module


def rows_of(tool: Any, peer: str, measure: Any, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Any]:
    monkeypatch.setattr(tool.correctness, "_measure", measure)
    found = list(tool._ask(peer, tool.suite, SimpleNamespace(quantise="ours")))
    assert tool.ours.attention_e4m3 == "ours"  # as before, for the next peer
    return {(row["gate"], row["row"]): row for row in found}


def test_readings_are_judged_by_the_limit_of_their_row(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {
        "error/rms-ratio": 0.4,
        "finite/bad-values": 0,
        "repeat/differing-runs": 1,
        "error/rms": 0.3,
        "error/ratio": 0.9,
        "diff/max": 7,
    }
    rows = rows_of(tool, "fa3", lambda *_: {"readings": readings}, monkeypatch)
    assert not rows["original-ratio", "original-outlier16-b2-h32-q128-k1024-hadamard"]["passes"]
    assert rows["original-ratio", "original-normal1-b2-h32-q128-k1024"]["passes"]
    assert rows["lse-ratio", "lse-normal1-h4-q256-k1024"]["passes"]
    assert not rows["accumulation", "ones-h2-q256-k1024-flush128"]["passes"]
    assert not rows["repeatable", "peak0.0-h2-q256-k2000"]["passes"]
    assert rows["needles", "needles-h16-q256-k131072"]["value"] == 7
    assert not any("one-level" in row for _, row in rows)


def test_a_refusal_is_a_row_that_does_not_pass(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("head dimension\nmore")

    rows = rows_of(tool, "cudnn", refuse, monkeypatch)
    assert {row["passes"] for row in rows.values()} == {False}
    assert {row["why"] for row in rows.values()} == {"RuntimeError: head dimension"}
