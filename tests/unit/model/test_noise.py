"""The recording of a machine's noise refuses what could not have been measured."""

import math

import pytest

from flashcore_ci.model.noise import Planted, Series


def series(count=3, **changes):
    values = {"process": tuple(range(count)), "ms": (1.0,) * count, "megacycles": (1.7,) * count, "mhz": (1700.0,) * count}
    return Series(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ms": (1.0, 1.0)}, "every process has"),
        ({"process": (0, 2, 1)}, "numbered upwards"),
        ({"process": (0, 1, 1)}, "numbered upwards"),
        ({"mhz": (1.0, 0.0, 1.0)}, "above zero"),
        ({"megacycles": (1.0, math.nan, 1.0)}, "finite"),
        ({"ms": (1.0, math.inf, 1.0)}, "finite"),
    ],
)
def test_a_series_is_of_measurements(changes, message):
    with pytest.raises(ValueError, match=message):
        series(**changes)


def test_a_process_may_have_failed():
    assert series(process=(0, 3, 4)).process == (0, 3, 4)


def test_rounds_have_two_sides():
    with pytest.raises(ValueError, match="a base and a head"):
        Planted(percent=1.0, confirmed=1.0, base=series(3), head=series(2))
