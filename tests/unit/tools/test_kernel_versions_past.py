"""Sittings of the kernels' versions: rounds of processes of one version each, and why a sitting is not used."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
ROW = "prefill-fp16-b16-h16-s2048-d64"


@pytest.fixture(scope="module")
def tool() -> Any:
    before = sys.path[:]
    sys.path.insert(0, str(ROOT / "tools/study"))
    try:
        import kernel_versions_past

        return kernel_versions_past
    finally:
        sys.path[:] = before


def apart(tool: Any, *, rounds: int = 3, slower: float = 1.0, other: float = 0.0) -> dict[str, Any]:
    """Processes of two versions with the same code. The second takes ``slower`` of the cycles."""
    device = {"name": "GPU", "multi_processor_count": 132, "total_memory": 1, "L2_cache_size": 1, "major": 9, "minor": 0}
    processes = []
    for number in range(2 * rounds):
        factor, wrong = (1.0, 0.0) if number % 2 == 0 else (slower, other)
        value = {"ms": 0.5 * factor, "megacycles": 0.9 * factor, "mhz": 1800.0, "sum": 7.0 + wrong}
        name = tool.CONTROL[number % 2]
        one = {"process": number, "version": name, "libraries": ["one.so"], "device": device, "rows": {ROW: value}}
        processes.append({**one, "torch": "2", "seconds": 1.0})
    sitting = {"at": "2026-11-23T20:00:00Z", "gpus": ["GPU, GPU-1, 580.1, 1 MiB"], "visible": "0"}
    return {"sitting": sitting, "processes": processes}


def test_a_round_has_each_version_once(tool: Any) -> None:
    rounds = tool.rounds_of(apart(tool))
    assert [sorted(each["rows"][ROW]) for each in rounds] == [sorted(tool.CONTROL)] * 3


def test_a_round_with_a_process_that_did_not_end_is_left_out(tool: Any) -> None:
    data = apart(tool, rounds=4)
    del data["processes"][3]["seconds"]
    assert len(tool.rounds_of(data)) == 3
    assert tool.problems_of(data) == []


def test_a_sitting_whose_control_differs_is_refused(tool: Any) -> None:
    assert "differ by -0.99 %" in tool.problems_of(apart(tool, slower=1.01))[0]
    assert tool.problems_of(apart(tool, slower=1.004)) == []


def test_other_results_of_the_same_code_are_refused(tool: Any) -> None:
    assert "other results" in tool.problems_of(apart(tool, other=1.0))[0]


def test_a_process_of_two_libraries_is_refused(tool: Any) -> None:
    data = apart(tool)
    data["processes"][1]["libraries"] = ["one.so", "two.so"]
    assert "[1]" in tool.problems_of(data)[0]


def test_too_few_rounds_are_refused(tool: Any) -> None:
    assert "2 complete rounds" in tool.problems_of(apart(tool, rounds=2))[0]


def test_a_version_has_the_times_of_one_sitting_and_pairs_of_its_own_round(tool: Any, tmp_path: Path) -> None:
    recorded = ROOT / "docs/performance/kernel-versions.json.xz"
    data = json.loads(lzma.decompress(recorded.read_bytes()))
    data["apart"] = apart(tool, slower=1.004)
    tool.write(data, tmp_path / "file.json.xz")
    past = tool.Past(tmp_path / "file.json.xz")
    workload = next(each for each in tool.WORKLOADS if each.id == ROW)
    one, two = tool.CONTROL
    assert past.recording_of(workload, two) is past.recordings[1]
    assert past.times(workload, two, "ms", one) == [0.5 * 1.004] * 3
    before = past.times(workload, "0d5631e6cf-attention", "ms")
    assert len(before) == len(data["processes"]) == 19
    assert {name for _, rows in past.new_rows() for found, name in rows if found.id == ROW} >= {one, two}
