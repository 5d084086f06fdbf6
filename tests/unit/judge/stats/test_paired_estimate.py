"""The moderated variance: what the recording is worth, and when it is worth nothing."""

import math
import random

import pytest
from comparing import lognormal, make_noise

from flashcore_ci.judge.stats.descriptive import sample_std
from flashcore_ci.judge.stats.paired_estimate import (
    MOST_FREEDOM,
    Prior,
    chunk_variances,
    common_freedom,
    estimate,
    priors,
    trigamma,
)

LOGS = tuple(math.log(value) for value in lognormal(3, 12, noise=0.1))


def test_alone_it_is_students_t():
    found = estimate(LOGS, None)
    assert (found.freedom, found.today, found.moderated) == (11, None, False)
    assert found.error == pytest.approx(sample_std(LOGS) / math.sqrt(12))
    assert found.lower(0.025) == pytest.approx(found.mean - 2.201 * found.error, rel=1e-3)
    assert found.upper(0.025) == pytest.approx(found.mean + 2.201 * found.error, rel=1e-3)


def test_a_recording_of_the_same_noise_narrows_the_interval():
    found = estimate(LOGS, Prior(variance=1e-6, freedom=20))
    assert found.moderated
    assert found.freedom == 31
    assert found.lower(1e-5) > estimate(LOGS, None).lower(1e-5)


def test_a_recording_of_a_quieter_machine_is_not_used():
    found = estimate(LOGS, Prior(variance=1e-8, freedom=20))
    assert not found.moderated
    assert found.today == pytest.approx(sample_std(LOGS) / 1e-4)
    assert (found.error, found.freedom) == (estimate(LOGS, None).error, 11)


def test_a_recording_of_a_noisier_machine_widens_the_interval():
    assert estimate(LOGS, Prior(variance=1e-4, freedom=20)).error > 3 * estimate(LOGS, None).error


def test_nothing_that_was_measured_never_scatters():
    with pytest.raises(ValueError, match="same to the last digit"):
        estimate((0.01,) * 8, Prior(variance=1e-6, freedom=20))


def test_trigamma():
    assert trigamma(1.0) == pytest.approx(math.pi**2 / 6, rel=1e-9)
    assert trigamma(0.5) == pytest.approx(math.pi**2 / 2, rel=1e-9)


def test_chunks_cover_every_process():
    series = make_noise(processes=21).workloads[0].same
    assert [freedom for freedom, _ in chunk_variances(series, "ms")] == [7, 12]
    assert [freedom for freedom, _ in chunk_variances(make_noise(processes=5).workloads[0].same, "ms")] == [4]


def chunked(source, spread):
    """Variances of chunks of 8 whose true scatter itself varies by ``spread`` (std of its log)."""
    made = []
    for _ in range(16):
        scales = [math.exp(source.gauss(0.0, spread)) for _ in range(5)]
        made.append(tuple((7, sample_std([source.gauss(0.0, scale) for _ in range(8)]) ** 2) for scale in scales))
    return tuple(made)


def test_noise_that_never_changes_is_worth_most_and_noise_that_does_little():
    constant = common_freedom(chunked(random.Random(1), 0.0))
    restless = common_freedom(chunked(random.Random(1), 1.0))
    assert constant == MOST_FREEDOM
    assert restless < 3


def test_smyths_freedom_is_found_again():
    source, true = random.Random(2), 6.0
    made = []
    for _ in range(400):
        scales = [math.sqrt(true / source.gammavariate(true / 2, 2.0)) for _ in range(5)]
        made.append(tuple((7, sample_std([source.gauss(0.0, scale) for _ in range(8)]) ** 2) for scale in scales))
    assert common_freedom(tuple(made)) == pytest.approx(true, rel=0.2)


def test_the_prior_is_of_a_round_of_two_processes():
    noise = make_noise(0.1)
    found = priors(noise, "megacycles")["big"]
    assert math.sqrt(found.variance) == pytest.approx(math.sqrt(2) * 1e-3, rel=0.2)
    assert found.freedom <= 35


def test_a_recording_is_worth_no_more_than_it_holds():
    assert priors(make_noise(processes=5), "ms")["big"].freedom == 4
    assert priors(make_noise(processes=40), "ms")["big"].freedom <= MOST_FREEDOM
