"""Subjects that cheat, as one H200 caught them: the recorded run is judged again, and each is red at the gate that is meant for it."""

from __future__ import annotations

import json

import pytest
import tool_server
from replayed import RECORDINGS, ROOT, environ

SUITE = "tests/attacks/cheats/cheats.toml"
LARGE, SMALL = 67_108_864, 1_048_576  # timed one by one, and in batches

CAUGHT: dict[str, dict[str, str]] = {
    "nothing": {"finite": "over-limit", "stability": "output-changed"},
    "replay": {"stability": "output-changed"},
    "side-stream": {"finite": "over-limit", "stability": "output-changed"},
    "forked-stream": {"stability": "raised"},
    "lingering": {"stability": "output-changed"},
    "first-call": {"repeatable": "over-limit", "stability": "output-changed"},
    "half": {"finite": "over-limit", "stability": "output-changed"},
    "beside": {"stability": "raised"},
}
"""By which gates each must be caught, and with which code."""
IN_A_GRAPH = {"lingering": {"stability": "raised"}}
"""What a CUDA graph refuses before anybody looks."""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[str, str]]:
    out = tmp_path_factory.mktemp("judged")
    argv = ["judge", str(RECORDINGS / "cheats.tar.xz"), "--suite", SUITE, "--out", str(out)]
    done = tool_server.run(argv, cwd=ROOT, env={**environ(), "PYTHONPATH": str(ROOT)})
    assert done.returncode == 10, done.stderr
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return {(v["target"], v["gate"]): (v["outcome"], v["reason"]["code"]) for v in report["verdicts"]}


@pytest.mark.parametrize("n", [LARGE, SMALL])
@pytest.mark.parametrize("cheat", sorted(CAUGHT))
def test_each_is_caught_by_the_gates_meant_for_it(verdicts: dict[tuple[str, str], tuple[str, str]], cheat: str, n: int) -> None:
    due = {**CAUGHT, **(IN_A_GRAPH if n == SMALL else {})}[cheat]
    assert {gate: verdicts[f"{cheat}-n{n}", gate] for gate in due} == {gate: ("FAIL", code) for gate, code in due.items()}


@pytest.mark.parametrize("n", [LARGE, SMALL])
def test_honest_work_is_green(verdicts: dict[tuple[str, str], tuple[str, str]], n: int) -> None:
    assert {outcome for (target, _), (outcome, _) in verdicts.items() if target == f"honest-n{n}"} == {"PASS"}


def test_every_cheat_of_the_suite_is_in_the_list(verdicts: dict[tuple[str, str], tuple[str, str]]) -> None:
    assert {target.rpartition("-n")[0] for target, _ in verdicts} == {"honest", *CAUGHT}
