import math
import random

import pytest

from flashcore_ci.history.unanchored import changes


def noise(seed, count, level=100.0, scatter=0.5):
    source = random.Random(seed)
    return [level + source.gauss(0.0, scatter) for _ in range(count)]


def test_a_step_is_found_where_it_is():
    (found,) = changes([*noise(1, 40), *noise(2, 40, level=105.0)])
    assert found.first == 40
    assert found.change == pytest.approx(5.0, abs=0.5)
    assert found.t > 7


def test_later_values_do_not_move_a_change():
    values = [value + 0.008 * (place >= 40) for place, value in enumerate(noise(3, 90, level=0.0, scatter=0.002))]
    assert {found.first for count in range(41, 91) for found in changes(values[:count])} == {40}


def test_nothing_is_found_in_noise_or_in_too_few_points():
    assert changes(noise(3, 400)) == ()
    assert changes([1.0] * 11 + [2.0] * 11) == ()
    assert changes([]) == ()


def test_constant_values_with_a_step_have_an_infinite_t():
    (found,) = changes([1.0] * 20 + [2.0] * 20)
    assert (found.first, found.t) == (20, math.inf)


def test_a_value_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        changes([1.0] * 20 + [math.nan])
