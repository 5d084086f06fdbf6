"""The moderated variance: the weight of the prior, and when it is dropped."""

import math
import random
from dataclasses import replace

import pytest
from comparing import lognormal, make_noise

from flashcore_ci.judge.stats.descriptive import sample_std
from flashcore_ci.judge.stats.paired_estimate import (
    MAX_PRIOR_DF,
    Prior,
    chunk_variances,
    estimate,
    estimate_prior_df,
    priors,
    trigamma,
)

LOGS = tuple(math.log(value) for value in lognormal(3, 12, noise=0.1))


def test_without_a_prior_it_is_students_t():
    found = estimate(LOGS, None)
    assert (found.df, found.scatter_ratio, found.moderated) == (11, None, False)
    assert found.standard_error == pytest.approx(sample_std(LOGS) / math.sqrt(12))
    assert found.lower_bound(0.025) == pytest.approx(found.mean - 2.201 * found.standard_error, rel=1e-3)
    assert found.upper_bound(0.025) == pytest.approx(found.mean + 2.201 * found.standard_error, rel=1e-3)


def test_a_prior_of_equal_noise_narrows_the_interval():
    found = estimate(LOGS, Prior(variance=1e-6, df=20))
    assert found.moderated
    assert found.df == 31
    assert found.lower_bound(1e-5) > estimate(LOGS, None).lower_bound(1e-5)


def test_a_prior_of_less_noise_is_dropped():
    found = estimate(LOGS, Prior(variance=1e-8, df=20))
    assert not found.moderated
    assert found.scatter_ratio == pytest.approx(sample_std(LOGS) / 1e-4)
    assert (found.standard_error, found.df) == (estimate(LOGS, None).standard_error, 11)


def test_a_prior_of_more_noise_widens_the_interval():
    assert estimate(LOGS, Prior(variance=1e-4, df=20)).standard_error > 3 * estimate(LOGS, None).standard_error


def test_equal_values_are_refused():
    with pytest.raises(ValueError, match="equal to the last digit"):
        estimate((0.01,) * 8, Prior(variance=1e-6, df=20))


def test_trigamma():
    assert trigamma(1.0) == pytest.approx(math.pi**2 / 6, rel=1e-9)
    assert trigamma(0.5) == pytest.approx(math.pi**2 / 2, rel=1e-9)


def test_chunks_cover_every_process():
    series = make_noise(processes=21).workloads[0].same
    assert [df for df, _ in chunk_variances(series.ms)] == [7, 12]
    assert [df for df, _ in chunk_variances(make_noise(processes=5).workloads[0].same.ms)] == [4]


def chunked(source, spread):
    """Variances of chunks of 8 whose true scatter itself varies by ``spread`` (std of its log)."""
    made = []
    for _ in range(16):
        scales = [math.exp(source.gauss(0.0, spread)) for _ in range(5)]
        made.append(tuple((7, sample_std([source.gauss(0.0, scale) for _ in range(8)]) ** 2) for scale in scales))
    return tuple(made)


def test_constant_noise_has_many_df_and_changing_noise_few():
    constant = estimate_prior_df(chunked(random.Random(1), 0.0))
    restless = estimate_prior_df(chunked(random.Random(1), 1.0))
    assert constant == MAX_PRIOR_DF
    assert restless < 3


def test_the_prior_df_of_smyths_model_is_recovered():
    source, true = random.Random(2), 6.0
    made = []
    for _ in range(400):
        scales = [math.sqrt(true / source.gammavariate(true / 2, 2.0)) for _ in range(5)]
        made.append(tuple((7, sample_std([source.gauss(0.0, scale) for _ in range(8)]) ** 2) for scale in scales))
    assert estimate_prior_df(tuple(made)) == pytest.approx(true, rel=0.2)


def test_the_prior_has_the_variance_of_two_processes():
    noise = make_noise(0.1)
    found = priors(noise, "megacycles")["big"]
    assert math.sqrt(found.variance) == pytest.approx(math.sqrt(2) * 1e-3, rel=0.2)
    assert found.df <= 35


def test_the_prior_df_are_limited_by_the_recording():
    assert priors(make_noise(processes=5), "ms")["big"].df == 4
    assert priors(make_noise(processes=40), "ms")["big"].df <= MAX_PRIOR_DF


def test_a_prior_of_cycles_is_that_at_a_common_clock():
    """Clocks that scatter by 1 % move cycles by 0.3 %, of which nothing is left."""
    source = random.Random(3)
    clocks = [source.gauss(0.0, 0.01) for _ in range(40)]
    logs = [0.3 * clock + source.gauss(0.0, 5e-4) for clock in clocks]
    times = [log - clock for log, clock in zip(logs, clocks, strict=True)]
    recorded = make_noise(processes=40)
    cycles, ms = (tuple(map(math.exp, values)) for values in (logs, times))
    same = replace(recorded.workloads[0].same, megacycles=cycles, ms=ms)
    noise = replace(recorded, workloads=(replace(recorded.workloads[0], same=same),))
    found, time = priors(noise, "megacycles")["big"], priors(noise, "ms")["big"]
    assert found.slope == pytest.approx(0.3, abs=4 * found.slope_error)
    assert math.sqrt(found.variance / 2) == pytest.approx(5e-4, rel=0.3)
    assert (time.slope, time.slope_error) == (0.0, 0.0)
