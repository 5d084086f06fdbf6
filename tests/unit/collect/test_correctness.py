import pytest

from flashcore_ci.collect import correctness
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Histogram, Measured, Missing

SAID = {"diff/max": 0.001, "error/ratio": 0.5, "finite/bad-values": 0.0, "repeat/differing-runs": 0.0}


def test_numbers_get_their_units():
    readings = dict(correctness.readings(SAID))
    assert readings["diff/max"] == Measured(value=0.001, unit="abs")
    assert readings["finite/bad-values"] == Measured(value=0.0, unit="count")


def test_words_for_what_is_no_number_become_a_reason():
    readings = dict(correctness.readings({**SAID, "diff/max": "nan", "error/ratio": "inf"}))
    assert isinstance(readings["diff/max"], Missing)
    assert {readings[name].code for name in ("diff/max", "error/ratio")} == {Code.NOT_FINITE}


def test_a_number_that_is_absent_is_missing_and_not_zero():
    readings = dict(correctness.readings({"diff/max": 0.001}))
    assert readings["repeat/differing-runs"].code is Code.METRIC_ABSENT
    assert len(readings) == 4


@pytest.mark.parametrize("said", ["many", None, []])
def test_what_is_no_number_is_no_reading(said):
    reading = dict(correctness.readings({"diff/max": said}))["diff/max"]
    assert reading.code is Code.INVALID_RESULT


def test_histograms_of_errors():
    said = {"first": -40, "counts": [0, 3], "zeros": 2, "not_finite": 0}
    expected = Histogram(first=-40, counts=(0, 3), zeros=2, not_finite=0, unit="abs")
    assert list(correctness.histograms({"error/ours/out": said})) == [("error/ours/out", expected)]


@pytest.mark.parametrize(
    "said", [None, [], {"a": None}, {"a": {}}, {"a": {"first": 0, "counts": [-1], "zeros": 0, "not_finite": 0}}]
)
def test_a_histogram_that_is_none_is_left_out(said):
    assert list(correctness.histograms(said)) == []
