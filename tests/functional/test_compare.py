"""``flashcore-ci compare`` and ``gate --base`` between real commits that really compile; only the GPU's timings are made up."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from compare_bench import Bench


def verdict(report: dict[str, Any]) -> tuple[str, str]:
    (found,) = [v for v in report["verdicts"] if v["gate"] == "no-slower"]
    return found["outcome"], found["reason"]["code"]


def test_a_slower_commit_is_seen_and_the_run_can_be_judged_again(bench: Bench) -> None:
    bench.change()
    bench.times["head"] = 1.02
    status, report, _ = bench.run("compare", "main", "topic")
    assert (status, verdict(report)) == (10, ("FAIL", "slower"))
    assert {v["gate"] for v in report["verdicts"]} == {"no-slower"}
    assert sorted(bench.timed) == sorted(f"round-{number}-{side}" for number in range(8) for side in ("base", "head"))
    assert verdict(bench.run("judge", "runs/compare", "--only", "no-slower", out="runs/judged")[1]) == ("FAIL", "slower")


def test_an_equal_commit_is_the_same_after_the_first_look(bench: Bench) -> None:
    bench.change()
    status, report, _ = bench.run("compare", "main")
    assert (status, verdict(report)) == (0, ("PASS", "same"))
    assert len(bench.timed) == 2 * 5


def test_the_same_code_is_not_timed(bench: Bench) -> None:
    bench.repository.edit("kernel/twice.cu", "  if (i < n)", "  // why\n  if (i < n)")
    status, report, _ = bench.run("compare", "main")
    assert (status, verdict(report)) == (0, ("PASS", "same-code"))
    assert bench.timed == []


JIT = """

def build(root):
    return None


def problem(params):
    return {"flops": float(params["n"]), "bytes": 8.0 * params["n"], "entries": []}


def load(library):
    assert library is None
"""
"""The end of a subject whose kernel is compiled when it first runs: no digest covers it."""


def jit(bench: Bench) -> None:
    with (bench.repository.folder / "subject.py").open("a") as file:
        file.write(JIT)
    bench.repository.commit("a kernel that is compiled just in time")


def test_code_that_no_digest_covers_is_timed_though_nothing_changed(bench: Bench) -> None:
    jit(bench)
    status, report, _ = bench.run("compare", "HEAD", "--only", "no-slower")
    assert (status, verdict(report)) == (0, ("PASS", "same"))
    assert len(bench.timed) == 2 * 5


def test_a_slower_kernel_without_a_digest_is_seen_and_the_base_runs_its_own_file(bench: Bench) -> None:
    jit(bench)
    bench.repository.edit("subject.py", "8.0 * params", "8.00 * params")  # stands for a loop of 50 iterations in the kernel
    bench.times["head"] = 1.02
    status, report, _ = bench.run("compare", "HEAD", "--only", "no-slower")
    assert (status, verdict(report)) == (10, ("FAIL", "slower"))
    ran = {}
    for side in ("base", "head"):
        (job,) = (bench.repository.folder / "runs/compare/logs").glob(f"**/*round-0-{side}/job.json")
        ran[side] = Path(json.loads(job.read_text())["subjects"][0]["file"]).read_text()
    assert "8.00 * params" in ran["head"]
    assert "8.00 * params" not in ran["base"]


def test_a_kernel_that_gets_a_build_is_still_compared_with_the_one_that_had_none(bench: Bench) -> None:
    jit(bench)
    bench.repository.edit("subject.py", JIT, "\n")
    bench.times["head"] = 1.02
    status, report, _ = bench.run("compare", "HEAD", "--only", "no-slower")
    assert (status, verdict(report)) == (10, ("FAIL", "slower"))


@pytest.mark.parametrize("how", ["it does not compile", "it raises"])
def test_what_the_base_has_and_cannot_run_is_inconclusive(bench: Bench, how: str) -> None:
    if how == "it raises":
        bench.times["base"] = "raised"
    else:
        bench.repository.edit("kernel/twice.cu", "2.0f * x[i]", "nonsense[i]")
    bench.repository.commit("a base that is none")
    bench.change() if how == "it raises" else bench.repository.edit("kernel/twice.cu", "nonsense[i]", "2.0f * x[i]")
    status, report, _ = bench.run("compare", "HEAD~1" if how == "it raises" else "HEAD")
    assert (status, verdict(report)) == (11, ("INCONCLUSIVE", "no-base"))
    assert verdict(bench.run("judge", "runs/compare", "--only", "no-slower", out="runs/judged")[1]) == ("INCONCLUSIVE", "no-base")


def test_another_name_for_the_kernel_does_not_escape_the_comparison(bench: Bench) -> None:
    for file, old in (
        ("kernel/twice.cu", "twice("),
        ("kernel/twice.h", "twice("),
        ("kernel/launch.cu", "&twice"),
        ("subject.py", '"twice'),
    ):
        bench.repository.edit(file, old, old.replace("twice", "doubled"))
    bench.times["head"] = 1.02
    status, report, _ = bench.run("compare", "main")
    assert (status, verdict(report)) == (10, ("FAIL", "slower"))


def test_a_head_that_raises_is_a_fail(bench: Bench) -> None:
    bench.change()
    bench.times["head"] = "raised"
    status, report, _ = bench.run("compare", "main")
    assert (status, verdict(report)) == (10, ("FAIL", "raised"))


def test_a_throttled_gpu_is_inconclusive(bench: Bench) -> None:
    bench.change()
    bench.times["head"] = "throttled"
    status, report, _ = bench.run("compare", "main")
    assert (status, verdict(report)) == (11, ("INCONCLUSIVE", "throttled"))


def test_a_revision_that_is_none_is_a_usage_error(bench: Bench) -> None:
    status, _, said = bench.run("compare", "nonsense")
    assert status == 2
    assert "git knows no commit 'nonsense' in this checkout" in said


def test_locked_clocks_are_recorded_and_free_again(bench: Bench) -> None:
    bench.change()
    _, report, _ = bench.run("compare", "main", "--lock-clocks", "1500")
    assert report["provenance"]["clock_policy"].startswith("locked at 1500 MHz")
    assert (bench.recording / "clocks").read_text().split("\n")[:2] == ["lock 1500 1500", "reset"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_comparison_keeps_its_rounds_and_frees_the_clock(bench: Bench, number: signal.Signals) -> None:
    bench.change()
    bench.times["wait"] = str(bench.recording / "never")
    child = bench.started("compare", "main", "--lock-clocks", "1500", "--out", "runs/compare")
    while len(bench.timed) < 3:
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(number)
    status, report, _ = bench.ended(child, "runs/compare")
    assert (status, verdict(report)[0]) == (11, "INCONCLUSIVE")
    evidence = json.loads((bench.repository.folder / "runs/compare/evidence.json").read_text())
    (observation,) = evidence["observations"]
    assert len(dict(observation["samples"])["base/clock/sm"]["values"]) == 1
    assert (bench.recording / "clocks").read_text().split() == ["lock", "1500", "1500", "reset"]


def test_gate_compares_with_where_the_branch_left_its_base(bench: Bench) -> None:
    bench.change()
    bench.times["head"] = 1.02
    _, report, said = bench.run("gate", "--live", "--base", "main", "--only", "no-slower", "--only", "build", out="runs/gate")
    assert verdict(report) == ("FAIL", "slower")
    assert f"the base is {bench.repository.git('rev-parse', 'main')[:12]}" in said


def test_without_a_gpu_there_is_nothing_to_compare(bench: Bench) -> None:
    status, _, said = bench.run("gate", "--recorded", "--base", "main")
    assert status == 2
    assert "--base needs a GPU" in said


def test_gate_times_a_changed_subject_with_the_bases_file_too(bench: Bench) -> None:
    """Head's inputs may be easier for a slower kernel. The base's are not."""
    bench.change()
    bench.repository.edit("subject.py", "8.0 * params", "8.00 * params")
    bench.repository.commit("another question")
    bench.times["head"] = 1.02
    status, report, said = bench.run(
        "gate", "--live", "--base", "main", "--only", "no-slower", "--only", "build", out="runs/gate"
    )
    codes = {v["gate"]: v["reason"]["code"] for v in report["verdicts"]}
    assert (status, codes["no-slower"], codes["no-slower (base's subject)"]) == (10, "slower", "slower"), said
    assert len(bench.timed) == 2 * 2 * 8
    ran = {}
    for part in ("", "base-subject/"):
        (job,) = (bench.repository.folder / "runs/gate/logs").glob(f"{part}*round-0-head/job.json")
        ran[part] = Path(json.loads(job.read_text())["subjects"][0]["file"]).read_text()
    assert ["8.00 *" in text for text in ran.values()] == [True, False]
