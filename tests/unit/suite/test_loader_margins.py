"""Gates that hold a measurement against another one: their margin must be one that can be shown."""

import pytest
from suite_texts import WITHOUT_GATES

from flashcore_ci.model.suite import Statistic

NO_SLOWER = """
[[gate]]
id = "no-slower"
title = "no slower than the base"
evidence = "comparison"
metric = "slowdown/primary"
statistic = "slowdown"
rule = "<="
limits = [{ value = 0.3, unit = "%" }]
why = "because"
owner = "kernels"
"""
NO_DRIFT = (
    NO_SLOWER.replace("no-slower", "no-drift")
    .replace('"comparison"', '"timing"')
    .replace('"slowdown/primary"', '"drift/primary"\nmin_samples = 3')
    .replace('"slowdown"', '"drift"')
)


def test_they_are_read(read):
    suite = read(WITHOUT_GATES + NO_SLOWER + NO_DRIFT)
    assert [gate.statistic for gate in suite.gates] == [Statistic.SLOWDOWN, Statistic.DRIFT]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"<="', '"<"', 'a slow-down is judged by "<=", not "<"'),
        ("0.3", "0", "can never be shown"),
        ("0.3", "-1.0", "can never be shown"),
        ('"%"', '"ms"', 'is judged in "%"'),
        ('statistic = "slowdown"', 'statistic = "value"', "so it needs a statistic"),
        ('statistic = "slowdown"', 'statistic = "relative-std"', 'is judged by the statistic "slowdown"'),
        ('"slowdown/primary"', '"head/clock/sm"', 'is judged by the statistic "relative-std"'),
        ('"comparison"', '"timing"', 'comes with the evidence "comparison"'),
    ],
)
def test_a_wrong_margin_is_reported(problems, old, new, message):
    assert old in NO_SLOWER
    assert any(message in line for line in problems(WITHOUT_GATES + NO_SLOWER.replace(old, new)))


def test_a_drift_needs_samples(problems):
    found = problems(WITHOUT_GATES + NO_DRIFT.replace("min_samples = 3", "min_samples = 9"))
    assert any("the gate needs 9 samples" in line for line in found)
