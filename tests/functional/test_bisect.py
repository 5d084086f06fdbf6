"""``flashcore-ci bisect`` over real commits that really compile. Only the GPU's timings are made up."""

from __future__ import annotations

import json

import pytest
from compare_bench import Bench

WORKLOAD = "twice-n4096"


@pytest.fixture
def planted(bench: Bench) -> tuple[Bench, list[str]]:
    """Eight commits, of which four change the kernel. The third of these is slow."""
    commits = [bench.repository.git("rev-parse", "HEAD").strip()]
    old = "2.0f * x[i]"
    for number in range(8):
        if number % 2:
            (bench.repository.folder / "notes.txt").write_text(f"note {number}\n")
        else:
            bench.repository.edit("kernel/twice.cu", old, new := f"2.0f * x[i] + {number}.0f")
            old = new
        bench.repository.commit(f"change {number}")
        commits.append(bench.repository.git("rev-parse", "HEAD").strip())
    bench.times["commits"] = {commit: 1.0 if number < 5 else 1.005 for number, commit in enumerate(commits)}
    return bench, commits


def run(bench: Bench, *more: str) -> tuple[int, dict, str]:
    child = bench.started("bisect", *more, "--json")
    answer, said = child.communicate(timeout=300)
    assert "Traceback" not in said
    return child.returncode, json.loads(answer), said


def test_the_slow_commit_is_found_and_only_changed_code_is_measured(planted) -> None:
    bench, commits = planted
    status, found, said = run(bench, "--workload", WORKLOAD, "--good", commits[0], "--bad", "HEAD")
    assert (status, found.get("first_bad"), found.get("last_good")) == (0, commits[5], commits[4]), said
    assert found["comparisons"] <= 2
    assert len(bench.timed) == 3 * 5 * found["comparisons"]


def test_ends_of_equal_code_are_refused_in_one_line(planted) -> None:
    bench, commits = planted
    status, found, _ = run(bench, "--workload", WORKLOAD, "--good", commits[1], "--bad", commits[2])
    assert (status, "all commits have the same code" in found["error"]) == (2, True)
    status, found, _ = run(bench, "--workload", WORKLOAD, "--good", commits[5], "--bad", commits[2])
    assert (status, "is not before" in found["error"]) == (2, True)
    assert bench.timed == []
