from __future__ import annotations

from dataclasses import replace

import pytest

from flashcore_ci.model.codes import ALERTING, FAILING, NEXT_STEP, SUBJECT_FAILURES, Code
from flashcore_ci.model.suite import Gate, Kind, Limit, Roof, Rule, Severity, Statistic
from flashcore_ci.report import explain, formatting

GATE = Gate(
    id="stability",
    title="the same speed every time",
    evidence=Kind.TIMING,
    metric="cycles/gpu/cold",
    statistic=Statistic.RELATIVE_STD,
    min_samples=5,
    rule=Rule.LESS,
    limits=(
        Limit(on="short-*", value=3.0, unit="%", severity=Severity.ADVISORY, why="launch effects"),
        Limit(on="*", value=2.0, unit="%", severity=Severity.BLOCKING, why=""),
    ),
    on=("*",),
    roofs=(Roof.COMPUTE, Roof.MEMORY),
    tags=("timed",),
    why="a spread hides a slow-down",
    owner="kernels",
)


def test_a_gate_in_words() -> None:
    text = explain.render(GATE)
    for words in (
        "stability: the same speed every time",
        "why       a spread hides a slow-down",
        "relative-std over at least 5 processes",
        "(roof compute or memory; tag timed)",
        "short-*                  below 3 %  advisory: launch effects",
        "*                        below 2 %  blocking\n",
        "Without a GPU",
        "flashcore-ci gate --only 'stability'",
    ):
        assert words in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_static_gates_need_no_gpu() -> None:
    text = " ".join(explain.render(replace(GATE, evidence=Kind.BUILD, statistic=Statistic.VALUE, roofs=(), tags=())).split())
    assert "No GPU is needed" in text
    assert "relative-std" not in text


def test_a_gate_on_a_comparison_says_what_it_compares() -> None:
    for statistic, words in ((Statistic.SLOWDOWN, "head over base"), (Statistic.DRIFT, "over the baseline")):
        assert words in explain.render(replace(GATE, statistic=statistic))


@pytest.mark.parametrize("code", Code)
def test_every_code_has_its_verdict(code: Code) -> None:
    text = explain.render_code(code)
    assert text.startswith(code)
    assert formatting.plain(NEXT_STEP.get(code, "the check passed")) in text
    assert ("FAIL" in text) == (code in SUBJECT_FAILURES | FAILING | ALERTING)
