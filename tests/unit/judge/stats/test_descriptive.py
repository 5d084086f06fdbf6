import math
import statistics as standard

import pytest

from flashcore_ci.judge.stats.descriptive import mean, relative_std, sample_std, split_at_gap


def test_against_the_standard_library():
    values = (0.65, 0.653, 0.648, 0.651, 0.655)
    assert mean(values) == pytest.approx(standard.mean(values))
    assert sample_std(values) == pytest.approx(standard.stdev(values))
    assert relative_std(values) == pytest.approx(100 * standard.stdev(values) / standard.mean(values))


def test_close_values_far_from_zero_keep_their_digits():
    assert sample_std((1e9, 1e9 + 1, 1e9 + 2)) == pytest.approx(1.0)


def test_equal_values_have_no_spread():
    assert relative_std((3.0, 3.0, 3.0)) == 0.0


@pytest.mark.parametrize(
    "values", [(), (1.0,), (0.0, 0.0), (-1.0, -2.0), (-1.0, 1.0), (math.nan, 1.0), (1e308, 1e308), (1e300, 1.0)]
)
def test_what_has_no_relative_spread(values):
    with pytest.raises(ValueError):
        relative_std(values)


def test_two_clear_groups():
    assert split_at_gap((100.0, 103.0, 100.1, 103.1)) == ((103.0, 103.1), (100.0, 100.1))


@pytest.mark.parametrize(
    "values",
    [
        (100.0, 103.0),
        (100.0, 100.0, 100.0, 103.0),
        (100.0, 101.0, 102.0, 103.0),
        (100.0, 100.0, 100.1, 100.1),
        (5.0, 5.0, 5.0, 5.0),
    ],
)
def test_one_group(values):
    assert split_at_gap(values) is None
