import pytest

from flashcore_ci.model.metrics import METRICS, SIDES, Scale, primary_scale
from flashcore_ci.model.suite import Roof


@pytest.mark.parametrize(
    ("roof", "scale"),
    [(Roof.MEMORY, Scale.TIME), (Roof.COMPUTE, Scale.CYCLES), (Roof.BALANCED, Scale.CYCLES), (None, Scale.CYCLES)],
)
def test_only_memory_bound_workloads_are_judged_in_time(roof, scale):
    assert primary_scale(roof) is scale


@pytest.mark.parametrize("scale", Scale)
def test_every_scale_has_metrics_of_timing_and_comparison(scale):
    assert {scale.metric, *(f"{side}/{scale.metric}" for side in SIDES)} <= METRICS.keys()
    assert scale.label in {"time", "cycles"}
