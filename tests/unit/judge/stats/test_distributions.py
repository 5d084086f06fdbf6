"""Quantiles against published tables (NIST/SEMATECH e-Handbook 1.3.6.7. Tiny tails by the closed forms for 1 and 2 df)."""

import math

import pytest

from flashcore_ci.judge.stats.distributions import chi2_quantile, f_quantile, f_tail, t_quantile, t_tail


@pytest.mark.parametrize(
    ("tail", "df", "value"),
    [(0.05, 1, 6.314), (0.025, 4, 2.776), (0.001, 7, 4.785), (0.005, 11, 3.106), (0.001, 30, 3.385), (0.1, 120, 1.289)],
)
def test_t(tail, df, value):
    assert t_quantile(tail, df) == pytest.approx(value, abs=6e-4)
    assert t_tail(t_quantile(tail, df), df) == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("tail", [1e-3, 1e-6, 1e-9])
def test_tiny_tails_of_t_have_closed_forms(tail):
    assert t_quantile(tail, 1) == pytest.approx(1.0 / math.tan(math.pi * tail), rel=1e-8)
    alpha = 4 * tail * (1 - tail)
    assert t_quantile(tail, 2) == pytest.approx(2 * (0.5 - tail) * math.sqrt(2 / alpha), rel=1e-8)


def test_t_at_and_below_zero():
    assert t_tail(-1.0, 5) == pytest.approx(1.0 - t_tail(1.0, 5))
    assert t_tail(0.0, 5) == pytest.approx(0.5)


@pytest.mark.parametrize(("tail", "df1", "df2", "value"), [(0.05, 4, 10, 3.478), (0.01, 11, 20, 3.294), (0.1, 7, 24, 1.983)])
def test_f(tail, df1, df2, value):
    assert f_quantile(tail, df1, df2) == pytest.approx(value, abs=6e-4)
    assert f_tail(0.0, df1, df2) == 1.0


@pytest.mark.parametrize(("tail", "df", "value"), [(0.95, 4, 0.711), (0.95, 11, 4.575), (0.05, 4, 9.488), (0.5, 7, 6.346)])
def test_chi_squared(tail, df, value):
    assert chi2_quantile(tail, df) == pytest.approx(value, abs=6e-4)
